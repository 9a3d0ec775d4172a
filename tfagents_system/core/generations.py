"""Checkpoint generations on disk: which exist, which are whole, which are dropped."""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import stat
from typing import Any

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.files import write_text_atomically
from tfagents_system.core.incarnation import Fence

MANIFEST = "manifest.json"
REPLAY_FOLDER = "replay"
NUM_KEPT = 2
_TEMPORARY = ".tmp-"  # begins the names of what `clear_unfinished` may remove
_REPLACED = f"{_TEMPORARY}replaced-"


def generation_dir(root: pathlib.Path, train_step: int) -> pathlib.Path:
    """Returns the folder of the generation saved at `train_step`."""
    return root / f"{train_step:010d}"


def generations(root: pathlib.Path) -> list[pathlib.Path]:
    """Returns what has the name of a generation, whole or damaged, newest first.

    Raises:
      ConfigError: If `root` cannot be read: it may hold generations.
    """
    try:
        names = os.listdir(root)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(
            f"{root} cannot be read ({error.strerror}). It is the folder of the checkpoints: make "
            "it readable, or remove it to start the run's learning anew."
        ) from error
    steps = {int(name) for name in names if re.fullmatch("[0-9]+", name)}
    paths = [generation_dir(root, train_step) for train_step in sorted(steps, reverse=True)]
    return [path for path in paths if path.name in names]  # a user's folder may be called 2024


def publish_generation(
    unfinished: pathlib.Path,
    root: pathlib.Path,
    train_step: int,
    facts: dict[str, Any],
    fence: Fence,
) -> None:
    """Makes the folder `unfinished` the generation of `train_step`, and drops the oldest ones.

    Writes the manifest (sizes and SHA-256 of every file, and `facts`), then renames the folder.

    Raises:
      SupersededError: If `fence` has been passed by a later start; no generation has changed.
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
    write_text_atomically(unfinished / MANIFEST, _manifest_text(manifest))
    fence.check()
    target = generation_dir(root, train_step)
    replaced = root / f"{_REPLACED}{train_step}"
    if target.exists():  # saved again at the same train step, as after a stop before the next one
        _remove(replaced)
        os.replace(target, replaced)  # a kill from here on: `_take_back_replaced`
    os.replace(unfinished, target)
    _remove(replaced)
    for old in _superseded(root, train_step):
        dropped = root / f"{_TEMPORARY}dropped-{old.name}"
        _remove(dropped)
        os.replace(old, dropped)  # first of all, because a half-removed one would count as damaged
        _remove(dropped)


def clear_unfinished(root: pathlib.Path) -> None:
    """Removes what killed saves have left in `root`; only while nothing is being saved there."""
    _take_back_replaced(root)
    for path in root.glob(f"{_TEMPORARY}*"):
        _remove(path)


def newest_intact_generation(root: pathlib.Path) -> pathlib.Path | None:
    """Returns the newest generation whose files all match its manifest; None if there is none yet.

    Raises:
      ConfigError: If generations exist but every one is damaged: starting empty would silently
        throw the run away.
    """
    _take_back_replaced(root)
    damage = []
    for generation in generations(root):
        problem = damage_of(generation)
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


def damage_of(generation: pathlib.Path) -> str | None:
    """Returns what is wrong with a generation; None if it is intact."""
    path = generation / MANIFEST
    try:
        _check_is_file(path)
        for name, expected in _listed_files(_verified_manifest(path.read_bytes())).items():
            path = generation / name
            _check_is_file(path)
            if path.stat().st_size != expected["bytes"] or _sha256(path) != expected["sha256"]:
                return f"{path} differs from its checksum"
    except FileNotFoundError:
        return f"{path} is missing"
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})"
    except (ValueError, RecursionError) as error:
        return f"{path} cannot be read ({error})"
    return None


def read_manifests(root: pathlib.Path) -> list[dict[str, Any]]:
    """Returns the manifests of the complete generations, newest first; not those that are damaged.

    The files that they list are not verified: this is for who wants to know what has been saved.
    """
    manifests = []
    for generation in generations(root):
        with contextlib.suppress(OSError, ValueError, RecursionError):
            manifests.append(_verified_manifest((generation / MANIFEST).read_bytes()))
    return manifests


def _superseded(root: pathlib.Path, train_step: int) -> list[pathlib.Path]:
    """Generations that are not needed beside a new one of `train_step`."""
    others = [(int(path.name), path) for path in generations(root)]
    # The run has gone back beyond a later one because that is damaged: it must not take the place
    # of one that is whole.
    later = [path for step, path in others if step > train_step]
    return later + [path for step, path in others if step < train_step][NUM_KEPT - 1 :]


def _take_back_replaced(root: pathlib.Path) -> None:
    """Undoes a replacement that a kill has interrupted between its two renames.

    If one is just going on, because another program starts in that very moment, it fails and the
    older state stays.
    """
    for replaced in root.glob(f"{_REPLACED}*"):
        step = replaced.name.removeprefix(_REPLACED)
        if step.isdecimal() and not (target := generation_dir(root, int(step))).exists():
            try:
                os.replace(replaced, target)
            except FileNotFoundError:  # the learner and the replay server start at the same time
                continue


def _check_is_file(path: pathlib.Path) -> None:
    if not stat.S_ISREG(path.stat().st_mode):  # opening a named pipe would wait for ever
        raise ValueError("not a file")


def _verified_manifest(content: bytes) -> dict[str, Any]:
    """Returns a manifest, which must be, byte by byte, what was written, without its checksum."""
    manifest = json.loads(content)
    if not isinstance(manifest, dict):
        raise ValueError("not a manifest")
    manifest.pop("sha256", None)
    if _manifest_text(manifest).encode() != content:
        raise ValueError("differs from its checksum")
    return manifest


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


def _manifest_text(facts: dict[str, Any]) -> str:
    """`facts`, and their own checksum as the last entry."""
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    return json.dumps(facts | {"sha256": digest}, indent=2) + "\n"


def _sha256(path: pathlib.Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _remove(path: pathlib.Path) -> None:
    """Removes a folder or a file, or as much of it as can be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
