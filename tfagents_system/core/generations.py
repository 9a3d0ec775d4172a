"""Checkpoint generations on disk: which exist, which are whole, which are dropped."""

import contextlib
import hashlib
import os
import pathlib
import shutil
from typing import Any

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.files import read_json, write_json_atomically

MANIFEST = "manifest.json"
NUM_KEPT = 2


def generation_dir(root: pathlib.Path, train_step: int) -> pathlib.Path:
    """Returns the folder of the generation saved at `train_step`."""
    return root / f"{train_step:010d}"


def generations(root: pathlib.Path) -> list[pathlib.Path]:
    """Returns the folders of complete generations, newest first."""
    found = [p for p in root.glob("*") if p.name.isdigit() and (p / MANIFEST).is_file()]
    return sorted(found, reverse=True)


def publish_generation(
    unfinished: pathlib.Path, root: pathlib.Path, train_step: int, facts: dict[str, Any]
) -> None:
    """Makes the folder `unfinished` the generation of `train_step`, and drops the oldest ones.

    Writes the manifest (sizes and SHA-256 of every file, and `facts`), then renames the folder.
    """
    files = sorted(path for path in unfinished.rglob("*") if path.is_file())
    manifest = {
        "train_step": train_step,
        **facts,
        "files": {
            str(path.relative_to(unfinished)): {
                "bytes": path.stat().st_size,
                "sha256": _sha256(path),
            }
            for path in files
        },
    }
    write_json_atomically(unfinished / MANIFEST, manifest)
    target = generation_dir(root, train_step)
    replaced = root / f".tmp-replaced-{train_step}"
    if target.exists():  # saved again at the same train step, as after a stop before the next one
        shutil.rmtree(replaced, ignore_errors=True)
        os.replace(target, replaced)  # removed only once the new one is in its place
    os.replace(unfinished, target)
    if replaced.exists():
        shutil.rmtree(replaced)
    for old in generations(root)[NUM_KEPT:]:
        (old / MANIFEST).unlink()  # incomplete first, so that a half-removed one is never restored
        shutil.rmtree(old)


def newest_intact_generation(root: pathlib.Path) -> pathlib.Path | None:
    """Returns the newest generation whose files all match its manifest; None if there is none yet.

    Raises:
      ConfigError: If generations exist but every one is damaged: starting empty would silently
        throw the run away.
    """
    damage = []
    for generation in generations(root):
        problem = _damage(generation)
        if problem is None:
            return generation
        damage.append(problem)
        print(f"Checkpoint {generation} is damaged: {problem}; trying the one before it.")
    if damage:
        raise ConfigError(
            f"Every checkpoint in {root} is damaged: {'; '.join(damage)}. Restore one from a "
            "backup, or remove that folder to start the run's learning anew."
        )
    return None


def read_manifests(root: pathlib.Path) -> list[dict[str, Any]]:
    """Returns the manifests of the complete generations, newest first; not those that are damaged.

    The files are not verified: this is for who wants to know what has been saved.
    """
    manifests = []
    for generation in generations(root):
        with contextlib.suppress(OSError, ValueError):
            manifests.append(read_json(generation / MANIFEST) or {})
    return manifests


def _damage(generation: pathlib.Path) -> str | None:
    try:
        files = read_json(generation / MANIFEST)["files"]
    except (ValueError, KeyError, TypeError) as error:
        return f"{generation / MANIFEST} cannot be read ({error!r})"
    for name, expected in files.items():
        path = generation / name
        if not path.is_file():
            return f"{path} is missing"
        if path.stat().st_size != expected["bytes"] or _sha256(path) != expected["sha256"]:
            return f"{path} differs from its checksum"
    return None


def _sha256(path: pathlib.Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
