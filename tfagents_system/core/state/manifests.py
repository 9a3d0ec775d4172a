"""The manifest of a checkpoint generation: lists its parts, and checks that they are there."""

import hashlib
import json
import pathlib
import stat
from collections.abc import Collection
from typing import Any

from tfagents_system.core.state.patience import is_transient

MANIFEST = "manifest.json"
INCARNATION = "incarnation"  # number of the core that made it: core/state/incarnation.py


def write_manifest(folder: pathlib.Path, facts: dict[str, Any], required: Collection[str]) -> None:
    """Writes the manifest: `facts`, and size and SHA-256 of every file in `folder`.

    Args:
      folder: A generation that is not published yet.
      facts: Other entries of the manifest.
      required: Names of files without which the generation is not complete.

    Raises:
      FileNotFoundError: If one of `required` is missing, or vanishes meanwhile.
    """
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    files = {}
    for name in sorted(names | set(required)):
        path = folder / name
        files[name] = {"bytes": path.stat().st_size, "sha256": _sha256(path)}
    (folder / MANIFEST).write_text(manifest_text({**facts, "files": files}))


def check_is_complete(folder: pathlib.Path) -> None:
    """Raises FileNotFoundError if a file that the manifest lists is missing or of another size."""
    for name, expected in _listed_files(read_manifest(folder)).items():
        if (folder / name).stat().st_size != expected["bytes"]:
            raise FileNotFoundError(f"{folder / name} is not as long as it was")


def damage_of(generation: pathlib.Path) -> str | None:
    """Describes the damage of a generation; None if it is intact.

    Raises:
      OSError: If the disk does not answer; see core/state/patience.py.
    """
    path = generation / MANIFEST
    try:
        for name, expected in _listed_files(read_manifest(generation)).items():
            path = generation / name
            _check_is_file(path)
            if path.stat().st_size != expected["bytes"] or _sha256(path) != expected["sha256"]:
                return f"{path} differs from its checksum"
    except FileNotFoundError:
        return f"{path} is missing"
    except OSError as error:
        if is_transient(error):
            raise
        return f"{path} cannot be read ({error.strerror})"
    except (ValueError, RecursionError) as error:
        return f"{path} cannot be read ({error})"
    return None


def incarnation_of(generation: pathlib.Path) -> int | None:
    """Returns the number of the core that made a generation, 0 if unnumbered; None if damaged.

    Raises:
      OSError: If the disk does not answer.
    """
    return incarnation_in(manifest_or_none(generation))


def incarnation_in(manifest: dict[str, Any] | None) -> int | None:
    """Returns the same number from a manifest that has been read."""
    number = None if manifest is None else manifest.get(INCARNATION, 0)
    return number if isinstance(number, int) else None


def manifest_or_none(generation: pathlib.Path) -> dict[str, Any] | None:
    """Returns the manifest of a generation; None if it is damaged or missing.

    Raises:
      OSError: If the disk does not answer.
    """
    try:
        return read_manifest(generation)
    except OSError as error:
        if is_transient(error):
            raise
    except (ValueError, RecursionError):
        pass
    return None


def read_manifest(generation: pathlib.Path) -> dict[str, Any]:
    """Returns a manifest, which must be unchanged since it was written, without its checksum.

    Raises:
      OSError: If it cannot be read.
      ValueError: If it is damaged; sometimes a RecursionError.
    """
    path = generation / MANIFEST
    _check_is_file(path)
    content = path.read_bytes()
    manifest = json.loads(content)
    if not isinstance(manifest, dict):
        raise ValueError("not a manifest")
    manifest.pop("sha256", None)
    if manifest_text(manifest).encode() != content:
        raise ValueError("differs from its checksum")
    return manifest


def manifest_text(facts: dict[str, Any]) -> str:
    """Returns `facts` as a manifest, with their own checksum as the last entry."""
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    return json.dumps(facts | {"sha256": digest}, indent=2) + "\n"


def _check_is_file(path: pathlib.Path) -> None:
    if not stat.S_ISREG(path.stat().st_mode):  # opening a named pipe would wait for ever
        raise ValueError("not a file")


def _listed_files(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    files = manifest.get("files")
    if not isinstance(files, dict):
        raise ValueError("lists no files")
    for name, expected in files.items():
        path = pathlib.PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f"lists {name!r}, which is outside of its folder")
        if not isinstance(expected, dict) or not {"bytes", "sha256"} <= expected.keys():
            raise ValueError(f"has no checksum of {name!r}")
    return files


def _sha256(path: pathlib.Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
