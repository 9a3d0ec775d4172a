"""Records the commits that a run starts from, and uncommitted changes."""

import dataclasses
import os
import pathlib
import subprocess
import threading

from tfagents_system.core.checkout import PROJECT, is_checkout

MAX_DIFF_BYTES = 1_000_000
TIMEOUT_SECS = 5.0


@dataclasses.dataclass(frozen=True)
class GitState:
    """State of a repository."""

    root: str
    commit: str  # hash, with `-dirty` if tracked files have changed
    diff: str  # their diff, cut after MAX_DIFF_BYTES

    @classmethod
    def of_folder(cls, folder: pathlib.Path) -> "GitState | None":
        """Returns the state of the repository that contains `folder`; None if there is none."""
        root = _git(folder, "rev-parse", "--show-toplevel").strip()
        if not root:
            return None
        commit = _git(folder, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
        if not commit:  # it has no commit yet
            return None
        diff = ""
        if commit.strip().endswith("-dirty"):
            diff = _git(folder, "diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color")
        return cls(root, commit.strip(), diff)

    @classmethod
    def of_project(cls, project: pathlib.Path = PROJECT) -> "GitState | None":
        """Returns the state of this project's repository; None outside of a checkout.

        An installed package, or a copy of the project, may lie in a repository of the user's.
        """
        if not is_checkout(project) or not _git(project, "ls-files", "pyproject.toml"):
            return None
        return cls.of_folder(project)

    @property
    def short_commit(self) -> str:
        """`commit` with 12 digits of the hash."""
        return self.commit[:12] + ("-dirty" if self.commit.endswith("-dirty") else "")


def _git(folder: pathlib.Path, *arguments: str) -> str:
    """Returns git's output, cut at a limit of size and time."""
    environ = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}
    try:
        process = subprocess.Popen(
            ["git", *arguments],
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:  # no git, or no such folder
        return ""
    with process:
        assert process.stdout is not None
        timer = threading.Timer(TIMEOUT_SECS, process.kill)
        timer.start()
        try:
            content = process.stdout.read(MAX_DIFF_BYTES + 1)
        finally:
            timer.cancel()
            process.kill()
    text = content[:MAX_DIFF_BYTES].decode(errors="replace")
    if len(content) > MAX_DIFF_BYTES:
        text += f"\n# cut here: there are more than {MAX_DIFF_BYTES} bytes\n"
    return text
