"""The specification of a run: written at each start, verified by its programs."""

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.user_modules import loaded_modules
from tfagents_system.core.state.disk import free_bytes, is_disk_full, shortage
from tfagents_system.core.state.files import write_json_durably
from tfagents_system.core.state.running import keep_modules
from tfagents_system.core.waiting import wait_until

MOST_SHOWN = 5  # differences, in a message
LEARNER_TIMEOUT_SECS = 600.0  # to build its environment and agent


@dataclasses.dataclass(frozen=True)
class RunSpec:
    """The facts on which all programs of a run must agree; no facts of a host, such as paths."""

    seed: int
    gin_bindings: list[str]
    horizon: int
    settings: Mapping[str, Any]  # hyperparameters; the type's name for one that is not JSON
    observation: Mapping[str, str]  # such as "float32 [3]", by the leaf's path
    action: Mapping[str, str]
    item: Mapping[str, Any]  # layout and columns of an item of the replay buffer
    files: Mapping[str, str]  # SHA-256 of config, params, and each imported module of the user's
    arithmetic: str | None  # of the learner's matrix products; None in other programs' views
    demonstrations: str | None = None  # their digest, if there are any; None in those views, too

    def agree(self, path: pathlib.Path) -> None:
        """Writes this spec to `path` if there is none yet; else compares the two.

        In the first case, the modules that the learner has imported become part of the run.

        Raises:
          ConfigError: If they differ, or if the disk is full, because others would wait for it.
        """
        if path.exists():
            self.check(path)
        else:
            keep_modules(path.parent, loaded_modules())
            try:
                write_json_durably(path, dataclasses.asdict(self))
            except OSError as error:
                if not is_disk_full(error):
                    raise
                needed = len(json.dumps(dataclasses.asdict(self)))
                raise ConfigError(
                    f"{shortage(path.name, needed, free_bytes(path.parent))} in {path.parent}. "
                    "Without it the programs cannot be compared; free some space and start "
                    "run_script.sh again."
                ) from error

    @classmethod
    def read(cls, path: pathlib.Path) -> "RunSpec":
        """Returns the spec that the learner has written.

        Raises:
          ConfigError: If it is damaged.
        """
        try:
            return cls(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(
                f"{path}: damaged ({error}). Stop the run and start run_script.sh again: it makes "
                "a new one."
            ) from error

    def check(self, path: pathlib.Path) -> None:
        """Compares this program's view with the run's spec in `path`.

        Raises:
          ConfigError: If they differ.
        """
        if lines := self._differences(RunSpec.read(path)):
            more = f" and {len(lines) - MOST_SHOWN} more" if len(lines) > MOST_SHOWN else ""
            raise ConfigError(
                f"this program differs from its run ({path}): {'; '.join(lines[:MOST_SHOWN])}"
                f"{more}. Was a file edited after the start of the run? Start run_script.sh again: "
                "that applies the edit to all programs at once."
            )

    def _differences(self, of_run: "RunSpec") -> list[str]:
        """Returns a line for each value that differs.

        Programs import some modules only when needed, so only modules that both have count.
        """
        own = json.loads(json.dumps(dataclasses.asdict(self)))
        lines = []
        for field, value in own.items():
            theirs: Any = getattr(of_run, field)
            if field in ("arithmetic", "demonstrations") and value is None:
                continue
            if not isinstance(value, dict):
                lines += [] if value == theirs else [f"{field} {_both(theirs, value)}"]
                continue
            names = value.keys() & theirs.keys() if field == "files" else value.keys() | theirs
            for name in sorted(names):
                before, now = theirs.get(name), value.get(name)
                if before != now:
                    how = "has another content now" if field == "files" else _both(before, now)
                    lines.append(f"{field} {name} {how}")
        return lines


def await_run_spec(path: pathlib.Path, stop: object) -> bool:
    """Waits until the learner has written the run's spec; returns False if `stop` becomes true.

    Raises:
      TimeoutError: If the learner has not written one for a long time.
    """
    wait_until(
        lambda: path.exists() or stop, LEARNER_TIMEOUT_SECS,
        what=f"the learner to write {path}; see its log",
    )  # fmt: skip
    return path.exists()


def _both(of_run: Any, own: Any) -> str:
    return f"is {json.dumps(of_run)} in the run, {json.dumps(own)} here"


def as_json(value: Any) -> Any:
    """Returns `value`, or the name of its type or function if JSON cannot hold it."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        named = value if hasattr(value, "__qualname__") else type(value)
        return f"{named.__module__}.{named.__qualname__}"


def file_hashes(files: Mapping[str, pathlib.Path]) -> dict[str, str]:
    """Returns the SHA-256 of each readable file by name."""
    hashes = {}
    for name, path in files.items():
        try:
            hashes[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError:
            continue
    return hashes
