"""A disk whose power a test can cut: what was not synced is lost."""

import contextlib
import fcntl
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator

import pytest

from tfagents_system.core.waiting import wait_until

SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
WITHOUT_FLUSHING = 2  # EXT4_GOING_FLAGS_NOLOGFLUSH: what the log has not written is lost
IMAGE_BYTES = 32 << 20
BUSY_SECS = 10.0  # that programs which were killed may still hold it


class CutDisk:
    """An ext4 file system; `folder` is its root."""

    def __init__(self, holder: subprocess.Popen, image: pathlib.Path):
        self._holder, self._image = holder, image
        self.folder = pathlib.Path(f"/proc/{holder.pid}/root/mnt")

    def mount(self) -> str:
        """Returns "ok", or why it could not be mounted."""
        return self._run(f"mount -o loop {self._image} /mnt")

    def cut(self) -> None:
        """From now on every access fails with EIO; nothing more reaches the image."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", WITHOUT_FLUSHING))
        os.close(descriptor)

    def power_on(self) -> None:
        """As the system does at its start: mounts what is there."""
        wait_until(lambda: self._run("umount /mnt") == "ok", BUSY_SECS, "the disk to be let go")
        answer = self.mount()
        assert answer == "ok", answer

    def _run(self, command: str) -> str:
        self._holder.stdin.write(f"{{ {command} && echo ok; }} 2>&1 | tail -n 1\n")
        self._holder.stdin.flush()
        return self._holder.stdout.readline().strip()


@contextlib.contextmanager
def cut_disk(num_bytes: int = IMAGE_BYTES) -> Iterator[CutDisk]:
    """Mounts it for the time of the block, in a namespace of its own; takes root."""
    with tempfile.TemporaryDirectory() as folder:
        image = pathlib.Path(folder, "disk")
        with image.open("wb") as file:
            file.truncate(num_bytes)
        # Not on the PATH of every user.
        make = shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        if make is None:
            pytest.skip("cutting the power of a disk takes mkfs.ext4, of the package e2fsprogs")
        subprocess.run([make, "-q", image], check=True)
        holder = subprocess.Popen(
            ["unshare", "--mount", "sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        disk = CutDisk(holder, image)
        try:
            if (answer := disk.mount()) != "ok":
                pytest.skip(f"cutting the power of a disk takes root and loop devices: {answer}")
            yield disk
        finally:
            disk._run("umount /mnt")
            holder.stdin.close()
            holder.wait()
