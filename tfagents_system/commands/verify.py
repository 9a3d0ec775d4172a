"""Repeats the first iterations of a deterministic run and checks that they are the same.

Example: sac verify logs/repeated --num_iter 5

Works for a run with SAC_DETERMINISTIC=1 that was never resumed, on the same kind of machine.
Compares every number of every episode except the time. Exit codes: 0 equal, 1 different; then the
second run stays next to the first, for inspection.
"""

import os
import pathlib
import shutil
from collections.abc import Mapping
from typing import Annotated, Any

from tfagents_system.comparison.settings_difference import settings_differences
from tfagents_system.core.errors import EXIT_FINISHED, ConfigError
from tfagents_system.core.programs.command_line import AtLeast
from tfagents_system.core.state.end_request import request_end
from tfagents_system.core.state.paths import ExperimentPaths, existing_experiment
from tfagents_system.core.state.provenance import read_provenance
from tfagents_system.launch.start import environment_of_runs, run_apart
from tfagents_system.records.episode_rows import COLUMNS

SUFFIX = "_verification"
OF_THE_CALLER = ("SAC_PRIVATE_NETWORK", "SAC_ENV_TIMEOUT_SECS")  # numbers do not depend on them
NOT_COMPARED = ("host",)


def verify(exp_dir: pathlib.Path, /, num_iter: Annotated[int, AtLeast(1)] = 10) -> int:
    """Returns 0 if the first iterations are the same, 1 if not, or the second run's exit code.

    Args:
      exp_dir: Folder of the experiment, below logs/.
      num_iter: Iterations to train again.

    Raises:
      ConfigError: If the run cannot be repeated, or has done fewer iterations.
    """
    first = existing_experiment(exp_dir)
    again = ExperimentPaths(pathlib.Path("logs") / f"{first.root.absolute().name}{SUFFIX}")
    saved = _repeatable(first)
    if again.root.exists():
        raise ConfigError(f"{again.root} is left of an earlier verification: move it away.")
    expected = _before(num_iter, read_episodes(first))
    if not expected or max(iteration for iteration, _ in expected) < num_iter - 1:
        raise ConfigError(f"{first.root} has not done {num_iter} iterations yet; lower --num_iter.")

    def end_if_done() -> None:
        if any(iteration >= num_iter for iteration, _ in read_episodes(again)):
            request_end(again, f"{num_iter} iterations are to be compared")

    # It has the first run's num_iter: learning rates and lessons may depend on it.
    code = run_apart(_environ_of(first, again, saved), end_if_done)
    if code != EXIT_FINISHED:
        return code
    seen = _before(num_iter, read_episodes(again))
    if seen == expected:
        shutil.rmtree(again.root)
        print(f"The first {num_iter} iterations are the same: {len(seen)} episodes.")
        return 0
    for what in _differences(expected, seen):
        print(what)
    for name, (before, now) in settings_differences([[first], [again]]):
        if name not in NOT_COMPARED:
            print(f"  {name} was {before}, is {now}")
    print(f"{again.root} has the second run.")
    return 1


def _repeatable(paths: ExperimentPaths) -> dict[str, Any]:
    """Returns the record of a run that can be repeated.

    Raises:
      ConfigError: If another run with the same settings may give other numbers.
    """
    keys = "deterministic", "initialized_from", "seed", "gin_bindings", "started_at"
    saved = read_provenance(paths.provenance, keys)
    if saved is None or not saved["deterministic"]:
        raise ConfigError(
            f"{paths.root} was not trained with SAC_DETERMINISTIC=1: no other run has its numbers."
        )
    if saved["initialized_from"]:
        raise ConfigError(
            f"{paths.root} began with the weights of {saved['initialized_from']}, which may have "
            "changed since: only a run that began with random weights can be repeated."
        )
    if (num_starts := len(saved["started_at"])) > 1:
        raise ConfigError(
            f"{paths.root} was started {num_starts} times: a resumed run has "
            "other random numbers than one that was never stopped."
        )
    return saved


def _environ_of(
    first: ExperimentPaths, again: ExperimentPaths, saved: Mapping[str, Any]
) -> dict[str, str]:
    """Returns the variables that start the first run again; `saved` is its record."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("SAC_") or name in OF_THE_CALLER}  # fmt: skip
    return environment_of_runs(kept | {
        "SAC_EXP_NAME": again.root.name,
        "SAC_PARAMS": str(first.params),
        "SAC_CONFIG": str(first.config),
        "SAC_SEED": str(saved["seed"]),
        "SAC_GIN_BINDINGS": "\n".join(saved["gin_bindings"]),
        "SAC_NUM_COLLECT_WORKERS": "1",
        "SAC_DETERMINISTIC": "1",
    })  # fmt: skip


def read_episodes(paths: ExperimentPaths) -> list[tuple[int, str]]:
    """Returns (iteration, all columns but the time) of each episode.

    Collected episodes come first, then evaluations.
    """
    iteration = COLUMNS.index("iteration")
    episodes = []
    for kind, shown in (("collect", "collection"), ("eval", "evaluation")):
        file = paths.episodes / f"{kind}_0.csv"
        lines = file.read_text(errors="replace").splitlines()[1:] if file.exists() else []
        for line in lines:
            fields = line.split(",")
            if len(fields) != len(COLUMNS):  # cut short
                continue
            if not fields[iteration].isdecimal():
                raise ConfigError(f"{file}: damaged ({line[:80]!r}). There is nothing to compare.")
            named = dict(zip(COLUMNS, fields, strict=True))
            del named["wall_time"]
            values = ", ".join(f"{name} {value}" for name, value in named.items() if value)
            episodes.append((int(fields[iteration]), f"{shown}: {values}"))
    return episodes


def _before(num_iter: int, episodes: list[tuple[int, str]]) -> list[tuple[int, str]]:
    return [episode for episode in episodes if episode[0] < num_iter]


def _differences(expected: list[tuple[int, str]], seen: list[tuple[int, str]]) -> list[str]:
    """Returns the first difference in words."""
    for (_, before), (_, now) in zip(expected, seen, strict=False):
        if before != now:
            return ["The second run is another one. First difference:", f"  was {before}",
                    f"  is  {now}"]  # fmt: skip
    return [f"The second run has {len(seen)} episodes, the first one had {len(expected)}."]
