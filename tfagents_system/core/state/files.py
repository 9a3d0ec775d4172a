"""Writes files and folders atomically.

A file written *atomically* is complete for every reader, even after a kill. A file written
*durably* also survives a power failure: a rename alone may reach the disk before the content does.
Files that a resume needs are written durably; files that only report are not.
"""

import contextlib
import errno
import json
import os
import pathlib
import platform
import stat
from collections.abc import Callable
from typing import Any, BinaryIO

NOT_SYNCED = (errno.EINVAL, errno.ENOTSUP)  # errors of file systems that cannot sync a folder


def temporary_name(path: pathlib.Path) -> pathlib.Path:
    """Returns a hidden name next to `path` that no other process of any host uses."""
    return path.with_name(f".{path.name}.{platform.node()}.{os.getpid()}.tmp")


def write_bytes_atomically(path: pathlib.Path, content: bytes, mode: int = 0o666) -> None:
    """Writes `content` to `path` by renaming a finished temporary file of the same folder.

    The umask applies to `mode`.
    """
    _write_and_rename(path, content, mode, os.replace)


def write_text_atomically(path: pathlib.Path, text: str, mode: int = 0o666) -> None:
    """Writes `text` as UTF-8; see `write_bytes_atomically`."""
    write_bytes_atomically(path, text.encode(), mode)


def write_json_atomically(path: pathlib.Path, value: Any, mode: int = 0o666) -> None:
    """Writes `value` as indented JSON; see `write_bytes_atomically`."""
    write_text_atomically(path, json.dumps(value, indent=2) + "\n", mode)


def write_bytes_durably(path: pathlib.Path, content: bytes, mode: int = 0o666) -> None:
    """Like `write_bytes_atomically`, but returns once the content is safe on the disk."""
    _write_and_rename(path, content, mode, rename_durably)


def write_json_durably(path: pathlib.Path, value: Any) -> None:
    """Writes `value` as indented JSON; see `write_bytes_durably`."""
    write_bytes_durably(path, (json.dumps(value, indent=2) + "\n").encode())


def rename_durably(
    source: pathlib.Path, target: pathlib.Path, prepare: Callable[[], object] | None = None
) -> None:
    """Renames a finished file or folder, with its content, so that it survives a power failure.

    The content is synced before the rename, the name after it.

    Args:
      source: Finished: nothing writes to it any more.
      target: On the same disk; a folder must be empty or missing.
      prepare: Called right before the rename, seconds after the sync began for a large folder.
    """
    sync_tree(source)
    if prepare is not None:
        prepare()
    os.replace(source, target)
    sync(target.parent)
    if source.parent != target.parent:
        sync(source.parent)


def make_folder_durably(folder: pathlib.Path) -> None:
    """Makes `folder` and its parents where they are missing."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in made:
        sync(path.parent)


def sync_tree(path: pathlib.Path) -> None:
    """Syncs a file, or a folder with everything in it, to the disk."""
    for folder, _, names in os.walk(path, topdown=False):
        for name in names:
            if stat.S_ISREG(os.lstat(file := os.path.join(folder, name)).st_mode):
                sync(file)
        sync(folder)
    if not path.is_dir():
        sync(path)


def sync(path: str | os.PathLike[str]) -> None:
    """Syncs a file's content, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in NOT_SYNCED:
            raise
    finally:
        os.close(descriptor)


def append_whole(path: pathlib.Path, content: bytes) -> None:
    """Appends `content` to `path`, made if missing; on an error, the file stays as it was.

    Only one process at a time may append.
    """
    with path.open("ab", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            while content:  # on a full disk, a part may be written without an error
                content = content[file.write(content) :]
        except OSError:
            file.truncate(size)
            raise


def overwrite(path: pathlib.Path, content: bytes) -> None:
    """Overwrites the file's content in place, padded with newlines to its old length.

    Needs no space on the disk if the file was as long, or is smaller than a block. A reader may
    see half of the old and half of the new content.
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
      ValueError: If it is not JSON.
    """
    try:
        with open_regular(path) as file:
            return json.loads(file.read())
    except FileNotFoundError:
        return None
    except RecursionError:
        raise ValueError(f"{path}: nested too deeply") from None


def open_regular(path: pathlib.Path) -> BinaryIO:
    """Opens a file that others may have put there, to read it.

    Raises:
      OSError: If it cannot be read, or may be endless: a named pipe, a device.
    """
    # A named pipe would wait for a writer.
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return file


def is_inside(path: pathlib.Path, folder: pathlib.Path) -> bool:
    """Returns whether `path` is inside `folder`, after following all links."""
    try:
        return path.is_file() and path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a loop of links
        return False


def _write_and_rename(
    path: pathlib.Path,
    content: bytes,
    mode: int,
    rename: Callable[[pathlib.Path, pathlib.Path], None],
) -> None:
    temporary = temporary_name(path)
    try:
        with open(temporary, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(content)
        rename(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):  # on a full disk it would only take space
            temporary.unlink()
        if str(error.filename) == str(temporary):  # which the user does not know
            error.filename = str(path)
        raise
