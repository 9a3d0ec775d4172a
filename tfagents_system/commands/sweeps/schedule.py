"""Trains the experiments of sweeps in their order, until all have ended or a signal stops them."""

import os
import time
from collections.abc import Sequence

from tfagents_system.commands.sweeps.experiments import Experiment
from tfagents_system.commands.sweeps.progress import Progress
from tfagents_system.commands.sweeps.runs import ParallelRuns
from tfagents_system.commands.sweeps.task_sweep import FAILED, TaskSweep
from tfagents_system.core.display import without_secrets
from tfagents_system.core.state.file_locks import is_locked
from tfagents_system.core.waiting import Throttled
from tfagents_system.launch.show.parts import SEPARATOR
from tfagents_system.terminal.lines import Terminal

POLL_SECS = 0.2
PRUNE_PERIOD_SECS = 10.0  # between readings of the evaluations of running trials
LOG_TAIL_BYTES = 4096


class Schedule:
    """A queue of experiments; the first one starts as soon as a slot is free."""

    def __init__(
        self,
        sweeps: Sequence[TaskSweep],
        runs: ParallelRuns,
        progress: Progress,
        terminal: Terminal,
        prunes: bool,
    ):
        """Starts nothing yet; `prunes` tells whether studies may end trials early."""
        self._queue = ((sweep, each) for sweep in sweeps for each in sweep.experiments())
        self._first: tuple[TaskSweep, Experiment] | None = None
        self._sweep_of: dict[str, TaskSweep] = {}  # of the experiments that run, by name
        self._runs, self._progress, self._terminal = runs, progress, terminal
        self._prune = Throttled(self._prune_trials if prunes else lambda: None, PRUNE_PERIOD_SECS)
        self._awaited: str | None = None

    def run(self) -> None:
        """Blocks until the queue is empty and all have ended, or a signal has stopped all.

        An error, such as an output without a reader, stops the running ones: nothing else would.

        Raises:
          ConfigError: If the params or the config of a sweep have changed.
        """
        try:
            while True:
                self._take_ended()
                self._start()
                if not self._sweep_of and (self._first is None or self._runs.is_stopped):
                    return
                self._prune()
                self._terminal.show(lambda: self._progress.line(self._runs.experiments))
                time.sleep(POLL_SECS)
        except BaseException:
            self._runs.stop_all()
            raise

    def _start(self) -> None:
        while self._runs.has_place:
            self._first = self._first or next(self._queue, None)
            if self._first is None:
                return
            sweep, experiment = self._first
            if sweep.has_ended(experiment):
                sweep.end(experiment)
                self._progress.skip()
            elif self._is_running_elsewhere(experiment):
                return
            else:
                sweep.task.check_files()
                self._terminal.print(f"{experiment.name}: {experiment.log}")
                self._progress.begin(experiment)
                self._sweep_of[experiment.name] = sweep
                self._runs.start(experiment)
            self._first = None

    def _is_running_elsewhere(self, experiment: Experiment) -> bool:
        """Returns whether an experiment still runs, as after a kill of an earlier start."""
        if experiment.task.placement != "local" or not is_locked(experiment.paths.lock):
            return False
        if self._awaited != experiment.name:
            self._awaited = experiment.name
            self._terminal.print(f"{experiment.paths.root} is running: waiting for its end.")
        return True

    def _take_ended(self) -> None:
        for experiment, exit_code in self._runs.take_ended():
            sweep = self._sweep_of.pop(experiment.name)
            if self._runs.is_stopped and not sweep.has_ended(experiment):
                continue
            state = sweep.end(experiment)
            text = f"{experiment.paths.root} {state}"
            if state == FAILED:
                text += f" (exit code {exit_code}, see {experiment.log}): {_last_line(experiment)}"
            self._progress.end(experiment, state == FAILED)
            progress = self._progress.line(self._runs.experiments)
            self._terminal.print(f"{text}{SEPARATOR}{progress}")

    def _prune_trials(self) -> None:
        for experiment in self._runs.experiments:
            sweep, trial = self._sweep_of[experiment.name], experiment.trial
            if sweep.prune(trial):
                self._terminal.print(
                    f"Trial {trial.number} is pruned: its best evaluation so far is below the "
                    "median of the completed trials."
                )
                for each in sweep.task.experiments_of(trial):
                    self._runs.stop(each)


def _last_line(experiment: Experiment) -> str:
    """Returns the last line of an experiment's output, which says why it has failed."""
    with experiment.log.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_TAIL_BYTES))
        lines = file.read().decode(errors="replace").split("\n")
    return without_secrets(next((line.strip() for line in reversed(lines) if line.strip()), "-"))
