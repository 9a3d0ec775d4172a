"""The record of where a run came from: `provenance.json`.

The launcher writes it for a new run, and prepares it for each later start, which the learner
accepts.
"""

import json
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.reporting import OnlyReports
from tfagents_system.core.state.disk import SpaceGuard
from tfagents_system.core.state.files import write_json_durably, write_text_atomically
from tfagents_system.core.state.incarnation import Fence
from tfagents_system.core.state.paths import ExperimentPaths


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(_is_text(item) for item in value)


def _is_seed(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32


_SHAPES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "seed": (_is_seed, "an integer from 0 to 4294967295"),
    "gin_bindings": (_are_texts, "a list of strings"),
    "params_dir": (_is_text, "a string"),
    "params_name": (lambda value: value is None or _is_text(value), "a string or null"),
    "started_at": (_are_texts, "a list of strings"),
    "deterministic": (lambda value: value is None or isinstance(value, bool), "true or false"),
    "initialized_from": (lambda value: value is None or _is_text(value), "a string or null"),
}


def read_provenance(path: pathlib.Path, keys: Iterable[str]) -> dict[str, Any] | None:
    """Returns the values of `keys` in `provenance.json`; None if there is no such file.

    Raises:
      ConfigError: If the file is damaged; the message names it and, if it is JSON, the key.
    """
    try:
        saved = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(_message(path, f"cannot be read: {error}")) from error
    if not isinstance(saved, dict):
        raise ConfigError(_message(path, "not a JSON object"))
    for key in keys:
        is_allowed, allowed = _SHAPES[key]
        if key not in saved and not is_allowed(None):
            raise ConfigError(_message(path, f"it has no {key}"))
        if not is_allowed(saved.get(key)):
            raise ConfigError(_message(path, f"{key} is not {allowed}"))
    return {key: saved.get(key) for key in keys}


def original_of(params: pathlib.Path) -> pathlib.Path:
    """Returns the absolute path of the original of `params`, an experiment's copy, or its own path.

    Modules next to the original are importable, and the copy has the original's `__file__`.

    Raises:
      ConfigError: If the experiment's `provenance.json` is damaged.
    """
    path = params.absolute()
    root = path.parent.parent if path.parent.name == "running" else path.parent
    provenance = root / "provenance.json"
    if path.name != "params.py" or not provenance.is_file():
        return path
    saved = read_provenance(provenance, ("params_dir", "params_name"))
    assert saved is not None  # it is a file
    return pathlib.Path(saved["params_dir"]) / (saved["params_name"] or path.name)


class StartRecord:
    """The record of one start of a run, which becomes the experiment's once the learner accepts it.

    Until then the experiment's record stays as it was: a refused start changes nothing.
    """

    def __init__(
        self, paths: ExperimentPaths, gin_bindings: Sequence[str], arithmetic: str, fence: Fence
    ):
        """Writes nothing yet; `gin_bindings` are in force, `arithmetic` is this learner's.

        `is_proven` tells whether the learner has trained with them.
        """
        self._paths, self._fence = paths, fence
        self._bindings, self._arithmetic = list(gin_bindings), arithmetic
        self.is_proven = self._is_kept = False

    def has_trained(self) -> None:
        """Accepts the start, with its gin bindings and its end; does nothing after that."""
        if self.is_proven:
            return
        self._keep({"gin_bindings": self._bindings})
        self._paths.finished.unlink(missing_ok=True)  # the run goes beyond it
        self._paths.extends.unlink(missing_ok=True)
        self.is_proven = True

    def is_saved(self) -> None:
        """Accepts a start that ends before it has trained; its gin bindings are not proven."""
        if not self._is_kept:
            self._keep({})

    def _keep(self, changes: Mapping[str, Any]) -> None:
        """Writes `provenance.json` and `git.diff` as the launcher has prepared them."""
        self._fence.check()
        paths, record = self._paths, json.loads(self._paths.provenance.read_text())
        if paths.running_provenance.exists() and not self._is_kept:  # the run is resumed
            kept = {"gin_bindings": record["gin_bindings"]}
            record = json.loads(paths.running_provenance.read_text()) | kept
            if paths.running_git_diff.exists():
                write_text_atomically(paths.git_diff, paths.running_git_diff.read_text())
            else:
                paths.git_diff.unlink(missing_ok=True)
        record |= {"arithmetic": self._arithmetic, **changes}
        with SpaceGuard(paths.provenance.name, paths.root):
            write_json_durably(paths.provenance, record)
        self._is_kept = True


@OnlyReports("gin.txt")
def record_gin(path: pathlib.Path, text: str) -> None:
    """Writes the hyperparameters of this start, for the user."""
    with SpaceGuard(path.name, path.parent):
        write_text_atomically(path, text)


def _message(path: pathlib.Path, reason: str) -> str:
    return (
        f"{path}: damaged ({reason}). Repair it, or start again: choose another SAC_EXP_NAME, or "
        "move the folder away."
    )
