"""A disk of a few megabytes that a test can fill up."""

import contextlib
import errno
import pathlib
import subprocess
from collections.abc import Iterator

import pytest


class SmallDisk:
    """A tmpfs; `folder` is its root."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self, spare_bytes: int = 0) -> None:
        """Leaves `spare_bytes` free, in whole blocks."""
        with self._filler.open("ab", buffering=0) as filler:
            try:
                while filler.write(bytes(1 << 16)):
                    pass
            except OSError as error:
                assert error.errno == errno.ENOSPC
            filler.truncate(filler.tell() - spare_bytes)

    def free(self) -> None:
        self._filler.unlink()


@contextlib.contextmanager
def small_disk(num_bytes: int, *options: str) -> Iterator[SmallDisk]:
    """Mounts it for the time of the block, in the namespace of a process of its own.

    `options` are others of mount, such as noexec.
    """
    listed = ",".join([f"size={num_bytes}", *options])
    mount = f"mount -t tmpfs -o {listed} none /mnt && echo mounted && exec sleep infinity"
    holder = subprocess.Popen(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        answer = holder.stdout.readline()
        if answer != "mounted\n":
            pytest.skip(f"a small disk needs user namespaces: {answer.strip()}")
        yield SmallDisk(pathlib.Path(f"/proc/{holder.pid}/root/mnt"))
    finally:
        holder.kill()
        holder.communicate()
