"""Reads the history of an experiment from its programs' records."""

import bisect
import datetime
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.meters import mean_of
from tfagents_system.core.state.files import read_json
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.provenance import read_provenance
from tfagents_system.records import number_rows
from tfagents_system.records.episode_rows import EpisodeRow, episode_files, read_rows
from tfagents_system.records.success import success_rate

LARGEST_RETURN = 1e100  # sums and squares of it are finite


class EvaluationPoint(NamedTuple):
    """The greedy episodes at one train step, of all workers together."""

    train_step: int
    env_step: int  # of all workers together
    training_secs: float  # since the start of the run, without the time while it was stopped
    returns: list[float]
    numbers: Mapping[str, float] = {}  # means of the numbers of `log_info`, by name
    success_rate: float | None = None  # 0 to 1; None if the run's episodes report no success

    @property
    def mean_return(self) -> float:
        """The mean over the episodes."""
        return math.fsum(self.returns) / len(self.returns)


def read_kind(paths: ExperimentPaths, kind: str) -> list[list[EpisodeRow]]:
    """Returns the episodes of a kind, "collect" or "eval", of each worker.

    Episodes with returns that are not finite, or too large to draw, are left out.
    """
    return [
        [row for row in read_rows(file) if abs(row.episode_return) <= LARGEST_RETURN]
        for file in episode_files(paths.episodes, kind)
    ]


def read_evaluations(paths: ExperimentPaths) -> list[EvaluationPoint]:
    """Returns the evaluations of an experiment, in order of train step.

    The newest one is left out while some of its episodes are missing, unless it is the only one:
    the shortest episodes end first, and their mean is not the mean of all.
    """
    evaluated = sorted(
        (row for worker in read_kind(paths, "eval") for row in worker),
        key=lambda row: row[:4],  # by train step first; success may be unknown
    )
    collected = read_kind(paths, "collect")
    env_step_at = env_step_counter(collected)
    times = [row.wall_time for rows in (evaluated, *collected) for row in rows]
    training_secs_at = training_clock(paths, times)
    numbers = numbers_of_evaluations(paths)
    has_success = any(row.success is not None for row in evaluated)
    points = []
    for train_step, rows in itertools.groupby(evaluated, key=lambda row: row.train_step):
        group = list(rows)
        end = max(row.wall_time for row in group)
        returns = [row.episode_return for row in group]
        points.append(
            EvaluationPoint(
                train_step, env_step_at(end), training_secs_at(end), returns,
                numbers.get(train_step, {}),
                success_rate([row.success for row in group], has_success),
            )
        )  # fmt: skip
    if len(points) > 1 and len(points[-1].returns) < _num_episodes(paths):
        points.pop()
    return points


def _num_episodes(paths: ExperimentPaths) -> int:
    """Returns the number of episodes of an evaluation; 0 if the run's specification lacks it."""
    try:
        return int(read_json(paths.run_spec)["settings"]["n_eval_episodes"])
    except (OSError, LookupError, TypeError, ValueError):
        return 0


def numbers_of_evaluations(paths: ExperimentPaths) -> dict[int, dict[str, float]]:
    """Returns the numbers of `log_info` by train step: means over its greedy episodes, by name."""
    found: dict[int, dict[str, list[float]]] = {}
    for file in episode_files(paths.episodes, f"{number_rows.PREFIX}eval"):
        for row in number_rows.read_numbers(file):
            found.setdefault(row.train_step, {}).setdefault(row.name, []).append(row.value)
    return {
        train_step: {name: mean_of(values) for name, values in by_name.items()}
        for train_step, by_name in found.items()
    }


def number_names(points: Sequence[EvaluationPoint]) -> list[str]:
    """Returns the names of the numbers that any evaluation has, except shares of choices."""
    names = dict.fromkeys(name for point in points for name in point.numbers)
    return [name for name in names if not name.startswith(number_rows.ACTION_SHARE)]


def evaluation_of(paths: ExperimentPaths, train_step: int) -> list[EpisodeRow]:
    """Returns the greedy episodes so far of one train step's policy."""
    return [row for row in _greedy_episodes(paths) if row.train_step == train_step]


def evaluated_episodes(paths: ExperimentPaths) -> dict[int, list[EpisodeRow]]:
    """Returns the greedy episodes so far by their policy's train step."""
    found: dict[int, list[EpisodeRow]] = {}
    for row in _greedy_episodes(paths):
        found.setdefault(row.train_step, []).append(row)
    return found


def reports_success(paths: ExperimentPaths) -> bool:
    """Returns whether any greedy episode of the run has reported success or failure so far."""
    return any(row.success is not None for row in _greedy_episodes(paths))


def _greedy_episodes(paths: ExperimentPaths) -> Iterator[EpisodeRow]:
    for file in episode_files(paths.episodes, "eval"):
        yield from read_rows(file)


def returns_of(paths: ExperimentPaths, train_step: int) -> list[float]:
    """Returns the returns so far of the greedy episodes of one train step's policy."""
    return [row.episode_return for row in evaluation_of(paths, train_step)]


def training_secs_so_far(paths: ExperimentPaths) -> float:
    """Returns the training time until the last episode, without the time while it was stopped.

    Raises:
      ConfigError: If provenance.json is damaged.
    """
    rows = itertools.chain(*read_kind(paths, "collect"), _greedy_episodes(paths))
    times = [row.wall_time for row in rows]
    return training_clock(paths, times)(max(times)) if times else 0.0


def training_clock(paths: ExperimentPaths, times: list[float]) -> Callable[[float], float]:
    """Returns a function from unix time to seconds of training.

    Training pauses from the last of `times` before a start of the run until that start; a start
    after which nothing was written until the next one does not count.

    Args:
      paths: Paths of the experiment; without provenance, it started once, at the first of `times`.
      times: Unix times at which the run has written something.

    Raises:
      ConfigError: If provenance.json is damaged.
    """
    times = sorted(times)
    starts = _starts(paths) or times[:1]
    pauses = []  # (end, length)
    for earlier, start in itertools.pairwise(starts):
        last_sign = max([earlier, *times[: bisect.bisect_left(times, start)][-1:]])
        pauses.append((start, start - last_sign))

    def training_secs(time: float) -> float:
        return time - starts[0] - math.fsum(secs for end, secs in pauses if end <= time)

    return training_secs


def _starts(paths: ExperimentPaths) -> list[float]:
    """Returns the known unix times at which the run was started."""
    provenance = read_provenance(paths.provenance, ("started_at",)) or {"started_at": []}
    try:
        return sorted(
            datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z").timestamp()
            for text in provenance["started_at"]
        )
    except ValueError as error:
        raise ConfigError(
            f"{paths.provenance}: damaged (started_at: {error}). Repair it."
        ) from error


def env_step_counter(collected: list[list[EpisodeRow]]) -> Callable[[float], int]:
    """Returns a function from unix time to env steps of all workers together."""
    workers = [sorted((row.wall_time, row.env_step) for row in rows) for rows in collected]

    def env_step(time: float) -> int:
        positions = [bisect.bisect_right(steps, (time, math.inf)) for steps in workers]
        return sum(s[index - 1][1] for s, index in zip(workers, positions, strict=True) if index)

    return env_step
