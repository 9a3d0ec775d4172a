"""The sweep of one variables file: its trials and their results."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tfagents_system.commands.sweeps.experiments import Experiment, Task
from tfagents_system.commands.sweeps.study import Study
from tfagents_system.commands.sweeps.trials import Trial
from tfagents_system.comparison.settings_difference import read_settings
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.meters import mean_of
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.running import is_finished
from tfagents_system.records.run_history import (
    EvaluationPoint,
    evaluated_episodes,
    read_evaluations,
)

FINISHED, PRUNED, FAILED, UNFINISHED = "finished", "pruned", "failed", "unfinished"


class Evaluated(NamedTuple):
    """The last evaluation of an experiment that has ended."""

    experiment: Experiment
    point: EvaluationPoint


class TrialResult(NamedTuple):
    """The state of a trial, and the evaluations of its seeds."""

    trial: Trial
    state: str
    evaluated: list[Evaluated]  # of its seeds

    @property
    def returns(self) -> list[float]:
        """The mean return of each seed."""
        return [seed.point.mean_return for seed in self.evaluated]

    @property
    def success_rate(self) -> float | None:
        """The mean over the seeds, 0 to 1; None if none reports success."""
        rates = [seed.point.success_rate for seed in self.evaluated]
        known = [rate for rate in rates if rate is not None]
        return mean_of(known) if known else None


class TaskSweep:
    """Hands out the experiments of a task, and records how they end."""

    def __init__(self, task: Task, trials: Iterator[Trial], study: Study | None):
        """Hands out nothing yet.

        Args:
          task: The variables file.
          trials: The trials to run; taken lazily, because the study learns from earlier ones.
          study: Chooses them; None for a grid.
        """
        self.task = task
        self.failed: list[str] = []  # names of experiments
        self._planned, self._study = trials, study
        self._trials: list[Trial] = []  # handed out
        self._ended: dict[str, EvaluationPoint | None] = {}  # by name, finished or pruned

    def experiments(self) -> Iterator[Experiment]:
        """Yields the experiments in their order, including those that have already ended."""
        for trial in self._planned:
            self._trials.append(trial)
            yield from self.task.experiments_of(trial)

    def has_ended(self, experiment: Experiment) -> bool:
        """Returns whether an experiment needs no more training."""
        return self.is_pruned(experiment.trial) or is_finished(experiment.paths)

    def is_pruned(self, trial: Trial) -> bool:
        """Returns whether a trial was pruned, now or in an earlier start."""
        return self._study is not None and self._study.is_pruned(trial)

    def end(self, experiment: Experiment) -> str:
        """Records that an experiment has ended, and returns how."""
        trial = experiment.trial
        if not self.has_ended(experiment):
            self.failed.append(experiment.name)
            return FAILED
        points: list[EvaluationPoint] = []
        with contextlib.suppress(ConfigError):  # a damaged file
            points = read_evaluations(experiment.paths)
        self._ended[experiment.name] = points[-1] if points else None
        result = self._result_of(trial)
        if self._study is not None and result.state == FINISHED:
            self._study.falls_behind(trial, self._returns_so_far(trial))  # others are compared
            if len(result.evaluated) == len(self.task.seeds):
                self._study.tell(trial, mean_of(result.returns))
        return PRUNED if result.state == PRUNED else FINISHED

    def prune(self, trial: Trial) -> bool:
        """Returns whether the pruner ends a trial now, because of its evaluations so far."""
        if self._study is None or self._study.is_pruned(trial):
            return False
        if not self._study.falls_behind(trial, self._returns_so_far(trial)):
            return False
        self._study.tell(trial, None)
        return True

    def results(self) -> list[TrialResult]:
        """Returns the results so far: finished trials by mean return, best first, then others."""

        def rank(result: TrialResult) -> tuple[bool, float]:
            returns = result.returns
            return result.state != FINISHED, -mean_of(returns) if returns else float("inf")

        begun = (self._result_of(trial) for trial in self._trials if self._has_begun(trial))
        return sorted(begun, key=rank)

    def _has_begun(self, trial: Trial) -> bool:
        """Returns whether a trial has a folder, or failed before it had one."""
        experiments = self.task.experiments_of(trial)
        return any(e.paths.root.exists() or e.name in self.failed for e in experiments)

    def _result_of(self, trial: Trial) -> TrialResult:
        experiments = self.task.experiments_of(trial)
        names = [experiment.name for experiment in experiments]
        if self.is_pruned(trial):
            state = PRUNED
        elif all(name in self._ended for name in names):
            state = FINISHED
        else:
            state = FAILED if any(name in self.failed for name in names) else UNFINISHED
        points = [(experiment, self._ended.get(experiment.name)) for experiment in experiments]
        return TrialResult(trial, state, [Evaluated(e, point) for e, point in points if point])

    def _returns_so_far(self, trial: Trial) -> list[float]:
        """Returns the mean returns of the evaluations that all begun seeds of a trial have."""
        curves = [
            _complete_returns(experiment.paths)
            for experiment in self.task.experiments_of(trial)
            if experiment.paths.root.exists()
        ]
        return [mean_of(returns) for returns in zip(*curves, strict=False)]


def _complete_returns(paths: ExperimentPaths) -> Sequence[float]:
    """Returns the mean returns of the evaluations whose episodes are complete."""
    try:
        num_episodes = read_settings(paths)["n_eval_episodes"]
    except (ConfigError, KeyError):  # the learner has not written it yet
        return []
    return [
        mean_of([row.episode_return for row in rows])
        for _, rows in sorted(evaluated_episodes(paths).items())
        if len(rows) >= num_episodes
    ]
