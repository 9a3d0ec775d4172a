"""Checkpoint generations on disk: lists them, picks the one to resume from, deletes old ones.

An older core may be frozen anywhere in here and wake up after a later one (incarnation.py) has
published. So the newest generation is the newest one of the latest core. Before a core deletes a
generation, it renames it and checks again: one made by a later core is put back. Readers of the
newest generation also put it back, in case the older core was killed meanwhile.
"""

import contextlib
import os
import pathlib
import re
import shutil
from collections.abc import Collection
from typing import Any

from tfagents_system.core.errors import ConfigError, SupersededError
from tfagents_system.core.state.disk import SPARE_BYTES, bytes_of
from tfagents_system.core.state.files import rename_durably
from tfagents_system.core.state.incarnation import Fence
from tfagents_system.core.state.manifests import (
    INCARNATION,
    MANIFEST,
    check_is_complete,
    damage_of,
    incarnation_in,
    incarnation_of,
    manifest_or_none,
    write_manifest,
)
from tfagents_system.core.state.patience import is_transient, patiently

__all__ = [
    "MANIFEST",
    "NUM_KEPT",
    "REPLAY_FOLDER",
    "clear_unfinished",
    "damage_of",
    "generation_dir",
    "generations",
    "newest_intact_generation",
    "publish_generation",
    "read_manifests",
    "unfinished_dir",
]

REPLAY_FOLDER = "replay"
NUM_KEPT = 2
# Prefix of names that `clear_unfinished` may remove. The number of the core that uses it follows
# (not in earlier versions), then its purpose.
_TEMPORARY = ".tmp-"
_REPLACED, _DROPPED = "replaced", "dropped"
_OWNED = re.compile(rf"{re.escape(_TEMPORARY)}([0-9]+)-.+")
_TAKEN = re.compile(rf"{re.escape(_TEMPORARY)}(?:([0-9]+)-)?({_REPLACED}|{_DROPPED})-([0-9]+)")


def generation_dir(root: pathlib.Path, train_step: int) -> pathlib.Path:
    """Returns the folder of the generation saved at `train_step`."""
    return root / f"{train_step:010d}"


def unfinished_dir(root: pathlib.Path, train_step: int, fence: Fence) -> pathlib.Path:
    """Returns the folder in which a generation is written before it is published."""
    return root / f"{_TEMPORARY}{fence.number}-{train_step}"


def generations(root: pathlib.Path) -> list[pathlib.Path]:
    """Returns all generations, intact or damaged, newest first.

    Raises:
      ConfigError: If `root` cannot be read, because it may hold generations.
      OSError: If the disk does not answer; see core/state/patience.py.
    """
    return [path for path, _ in _found(root)]


def _found(root: pathlib.Path) -> list[tuple[pathlib.Path, dict[str, Any] | None]]:
    """Returns the generations with their manifests (None if damaged), newest first."""
    try:
        names = os.listdir(root)
    except FileNotFoundError:
        return []
    except OSError as error:
        if is_transient(error):
            raise
        raise ConfigError(
            f"{root} cannot be read ({error.strerror}). It is the folder of the checkpoints: make "
            "it readable. To start the run again from nothing, choose another SAC_EXP_NAME."
        ) from error
    steps = {int(name) for name in names if re.fullmatch("[0-9]+", name)}
    paths = [generation_dir(root, train_step) for train_step in sorted(steps, reverse=True)]
    paths = [path for path in paths if path.name in names]  # a user's folder may be called 2024
    found = [(path, manifest_or_none(path)) for path in paths]
    numbers = {path: incarnation_in(manifest) for path, manifest in found}
    latest = max((number for number in numbers.values() if number is not None), default=0)

    def rank(item: tuple[pathlib.Path, object]) -> int:
        number = numbers[item[0]]
        return latest if number is None else number  # a damaged one may be of the latest core

    return sorted(found, key=rank, reverse=True)


def publish_generation(
    unfinished: pathlib.Path,
    root: pathlib.Path,
    train_step: int,
    facts: dict[str, Any],
    fence: Fence,
    required: Collection[str] = (),
) -> None:
    """Publishes the folder `unfinished` as the generation of `train_step`, and drops the oldest.

    Writes the manifest (size and SHA-256 of every file, and `facts`), then renames the folder.
    When this function returns, the generation survives a power failure.

    Args:
      unfinished: Complete except for the manifest.
      root: Folder of all generations.
      train_step: Names the generation.
      facts: Other entries of the manifest.
      fence: Fence of this start of the core.
      required: Names of files in `unfinished` that must exist.

    Raises:
      SupersededError: If a later start has claimed; its generations stay.
      OSError: If the generation could not be published, or is not complete; it is then missing,
        and the ones before it stay.
    """
    facts = {"train_step": train_step, INCARNATION: fence.number, **facts}
    write_manifest(unfinished, facts, required)
    target = generation_dir(root, train_step)
    replaced, has_room = None, False

    def make_room() -> None:
        nonlocal replaced, has_room
        fence.check()
        if target.exists():  # saved again at the same train step, as after a stop before the next
            replaced = _take_away(target, _REPLACED, fence)
        has_room = True

    try:
        rename_durably(unfinished, target, make_room)
        check_is_complete(target)
    except OSError:
        if has_room and not unfinished.exists():
            with contextlib.suppress(OSError, SupersededError):
                _remove(_take_away(target, _DROPPED, fence))
        if replaced is not None:
            _put_back(replaced, target)
        raise
    fence.check()  # this process may have been frozen since; then it must change nothing more
    if replaced is not None:
        _remove(replaced)
    for old in _superfluous(root, target, fence):
        with contextlib.suppress(FileNotFoundError):  # a later start was faster
            _remove(_take_away(old, _DROPPED, fence))


def clear_unfinished(root: pathlib.Path, fence: Fence) -> None:
    """Removes what killed saves of this start and earlier ones have left in `root`.

    Call it only while this start saves nothing. The save of an earlier, living start then fails.
    """
    for path in sorted(root.glob(f"{_TEMPORARY}*")):
        owned = _OWNED.fullmatch(path.name)
        is_ours = owned is None or int(owned[1]) <= fence.number
        if is_ours and not _is_taken_back(path):
            _remove(path)


def newest_intact_generation(root: pathlib.Path) -> pathlib.Path | None:
    """Returns the newest generation whose files all match its manifest; None if there is none yet.

    Raises:
      ConfigError: If every generation is damaged: starting empty would silently discard the run.
      StorageError: If the disk does not answer for a while.
    """
    return patiently(lambda: _newest_intact(root), f"The folder of the checkpoints, {root},")


def read_manifests(root: pathlib.Path) -> list[dict[str, Any]]:
    """Returns the manifests of the undamaged generations, newest first.

    The listed files are not verified: this only shows what has been saved.

    Raises:
      OSError: If the disk does not answer: the newest one might be missing among the others.
    """
    return [manifest for _, manifest in _found(root) if manifest is not None]


def _newest_intact(root: pathlib.Path) -> pathlib.Path | None:
    for path in sorted(root.glob(f"{_TEMPORARY}*")):
        _is_taken_back(path)
    damage = []
    for generation in generations(root):
        problem = damage_of(generation)
        if problem is None:
            return generation
        if not os.path.lexists(generation):  # an older core has renamed it for a moment
            return _newest_intact(root)
        damage.append(problem)
        print(f"Checkpoint {generation} is damaged: {problem}; trying the one before it.")
    if damage:
        raise ConfigError(
            f"Every checkpoint in {root} is damaged: {'; '.join(damage)}. Restore one from a "
            "backup. To start the run again from nothing, choose another SAC_EXP_NAME."
        )
    return None


def _superfluous(root: pathlib.Path, new: pathlib.Path, fence: Fence) -> list[pathlib.Path]:
    """Returns the generations that are no longer needed after `new`, which was just made."""
    others = [
        path for path, manifest in _found(root)
        if path != new and (incarnation_in(manifest) or 0) <= fence.number
    ]  # fmt: skip
    fence.check()  # so that no damaged one in the list belongs to a later start
    # A later generation is damaged if the run has gone back beyond it; it must not be kept in
    # place of an intact one.
    later = [path for path in others if int(path.name) > int(new.name)]
    return later + [path for path in others if int(path.name) < int(new.name)][NUM_KEPT - 1 :]


def _take_away(path: pathlib.Path, why: str, fence: Fence) -> pathlib.Path:
    """Renames a generation that this start wants to remove; returns its new name.

    Raises:
      SupersededError: If a later start has made it meanwhile; it is put back.
    """
    taken = path.with_name(f"{_TEMPORARY}{fence.number}-{why}-{int(path.name)}")
    if not _is_taken_back(taken):
        _remove(taken)
    os.replace(path, taken)
    try:
        is_later = _is_of_later_than(fence.number, taken)
    except OSError:
        _put_back(taken, path)
        raise
    if is_later:
        _put_back(taken, path)
        fence.check()
        raise FileExistsError(f"{path} has been made by a later start of the run")
    return taken


def _put_back(taken: pathlib.Path, path: pathlib.Path) -> None:
    with contextlib.suppress(OSError):  # another process was or will be faster: `_is_taken_back`
        os.replace(taken, path)


def _is_taken_back(path: pathlib.Path) -> bool:
    """Renames a generation back if its core was killed while removing it.

    This applies if no successor has its name, or if a later core has made it. If the core lives
    and is just replacing it, its rename fails and the older state stays.
    """
    if not (found := _TAKEN.fullmatch(path.name)):
        return False
    number, why, train_step = int(found[1] or 0), found[2], int(found[3])
    target = generation_dir(path.parent, train_step)
    if target.exists() or not (why == _REPLACED or _is_of_later_than(number, path)):
        return False
    try:
        os.replace(path, target)
    except FileNotFoundError:  # the learner and the replay server start at the same time
        return False
    return True


def _is_of_later_than(number: int, generation: pathlib.Path) -> bool:
    made_by = incarnation_of(generation)
    return made_by is not None and made_by > number


def _remove(path: pathlib.Path) -> None:
    """Removes a folder or file as far as possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def checkpoint_bytes(root: pathlib.Path) -> int:
    """Estimates the size of the next generation in `root` from the newest one.

    It is at least SPARE_BYTES, also while the disk does not answer.
    """
    try:
        return sum(map(bytes_of, generations(root)[:1])) + SPARE_BYTES
    except (OSError, ConfigError):
        return SPARE_BYTES
