"""Files that appear whole or not at all."""

import errno
import json
import os
import pathlib
import platform
import stat
from typing import Any, BinaryIO


def temporary_name(path: pathlib.Path) -> pathlib.Path:
    """Returns a hidden name beside `path` that no other process of any host uses."""
    return path.with_name(f".{path.name}.{platform.node()}.{os.getpid()}.tmp")


def write_bytes_atomically(path: pathlib.Path, content: bytes, mode: int = 0o666) -> None:
    """Writes `content` to `path` by renaming a finished temporary file of the same folder.

    The umask takes away from `mode` what others shall not have.
    """
    temporary = temporary_name(path)
    try:
        with open(temporary, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)  # on a full disk it would only take space
        raise


def write_text_atomically(path: pathlib.Path, text: str, mode: int = 0o666) -> None:
    """Writes `text` as UTF-8; see `write_bytes_atomically`."""
    write_bytes_atomically(path, text.encode(), mode)


def write_json_atomically(path: pathlib.Path, value: Any, mode: int = 0o666) -> None:
    """Writes `value` as indented JSON; see `write_bytes_atomically`."""
    write_text_atomically(path, json.dumps(value, indent=2) + "\n", mode)


def append_whole(path: pathlib.Path, content: bytes) -> None:
    """Appends `content` to `path`, which is made if missing; an error leaves it as it was.

    Only one process at a time may append.
    """
    with path.open("ab", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            while content:  # of a full disk's last block, a part is written without an error
                content = content[file.write(content) :]
        except OSError:
            file.truncate(size)
            raise


def overwrite(path: pathlib.Path, content: bytes) -> None:
    """Writes over the file's content; newlines follow, up to its old length.

    Needs no space on the disk if the file has been as long, or is smaller than a block. Unlike a
    file that is replaced, it may be read half old and half new.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        content = content.ljust(os.fstat(descriptor).st_size, b"\n")
        if os.pwrite(descriptor, content, 0) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(descriptor)


def read_json(path: pathlib.Path) -> Any:
    """Returns the parsed file, or None if it does not exist.

    Raises:
      OSError: If it cannot be read.
      ValueError: If it is no JSON.
    """
    try:
        with open_regular(path) as file:
            return json.loads(file.read())
    except FileNotFoundError:
        return None
    except RecursionError:
        raise ValueError(f"{path}: nested too deeply") from None


def open_regular(path: pathlib.Path) -> BinaryIO:
    """Opens a file to be read, which others may have put there.

    Raises:
      OSError: If it cannot be read, or need not end: a named pipe, a device.
    """
    # A named pipe would wait for a writer.
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return file
