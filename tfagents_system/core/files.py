"""Files that appear whole or not at all."""

import json
import os
import pathlib
from typing import Any


def write_bytes_atomically(path: pathlib.Path, content: bytes) -> None:
    """Writes `content` to `path` by renaming a finished temporary file of the same folder."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(content)
    os.replace(temporary, path)


def write_text_atomically(path: pathlib.Path, text: str) -> None:
    """Writes `text` as UTF-8; see `write_bytes_atomically`."""
    write_bytes_atomically(path, text.encode())


def write_json_atomically(path: pathlib.Path, value: Any) -> None:
    """Writes `value` as indented JSON; see `write_text_atomically`."""
    write_text_atomically(path, json.dumps(value, indent=2) + "\n")


def read_json(path: pathlib.Path) -> Any:
    """Returns the parsed file, or None if it does not exist."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
