"""The kernel's namespaces in tests: whether it makes them, and commands that are refused some."""

import os
import pathlib
import subprocess

import pytest

PROJECT = pathlib.Path(__file__).parents[1]

# Prefixes of a command, by the rights of the user who runs it. Root needs no user namespace.
USERS: dict[str, tuple[str, ...]] = {"as it is": ()}
if os.geteuid() == 0:
    USERS["without CAP_SYS_ADMIN"] = ("setpriv", "--bounding-set=-sys_admin")

NO_MORE_NETWORKS = (
    "unshare", "--user", "--map-root-user",
    "sh", "-c", 'echo 0 >/proc/sys/user/max_net_namespaces && exec "$@"', "sh",
)  # fmt: skip


def needs_namespaces() -> None:
    """Skips a test where the kernel makes no private network, whatever the code says of it."""
    for more in ([], ["--user", "--map-root-user"]):
        if subprocess.run(["unshare", *more, "--net", "true"], capture_output=True).returncode == 0:
            return
    pytest.skip("the kernel makes no network namespace for this user")
