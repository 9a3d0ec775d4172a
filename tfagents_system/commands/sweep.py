"""Sweeps settings: trains each with each seed, several at a time, and ranks them by return.

Example: sac sweep my_variables.sh --grid train_batch_size=128,256 --seed 1 2 --parallel 2

`--search critic_learning_rate=1e-4:1e-2:log --trials 20` lets Optuna choose the settings instead.
Each trial is one experiment, or one for each seed: logs/NAME_trial_<k>_seed_<s>. The same command
resumes unfinished trials; for other settings, give another --name. Table and plot are in
logs/NAME_sweep.
"""

import concurrent.futures
import csv
import io
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated

from tfagents_system.commands.bindings import bindings_of, with_bindings
from tfagents_system.commands.earlier_runs import check_is_same
from tfagents_system.commands.trials import (
    Study,
    Trial,
    grid_trials,
    parse_grid,
    parse_ranges,
)
from tfagents_system.comparison.compare import scores_of
from tfagents_system.comparison.plots import draw_panels
from tfagents_system.comparison.run_groups import RunGroup
from tfagents_system.core.errors import EXIT_STOPPED, ConfigError
from tfagents_system.core.process.cpus import available_cpus, cpu_count, cpu_list
from tfagents_system.core.process.process_start import there
from tfagents_system.core.programs.command_line import AtLeast
from tfagents_system.core.settings.variables import Settings
from tfagents_system.core.state.files import write_text_atomically
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch import start
from tfagents_system.launch.local.variables import read_variables

NUM_PLOTTED = 6  # number of best trials


def sweep(
    variables: pathlib.Path,
    /,
    grid: tuple[str, ...] = (),
    search: tuple[str, ...] = (),
    trials: Annotated[int, AtLeast(1)] = 20,
    seed: tuple[int, ...] = (1,),
    parallel: Annotated[int, AtLeast(1)] = 1,
    name: str | None = None,
) -> int:
    """Runs the trials and prints a table, best first; returns the exit code.

    Args:
      variables: Variables file of the experiment to vary.
      grid: Values of hyperparameters, NAME=V1,V2,...; all combinations are tried.
      search: Ranges of hyperparameters, NAME=LOW:HIGH or NAME=LOW:HIGH:log, for Optuna.
      trials: Number of settings that Optuna tries.
      seed: Seeds; each trial is trained with each of them.
      parallel: Experiments at a time; on this machine they divide the CPUs.
      name: Name of the sweep. Default: the name in the variables file.

    Raises:
      ConfigError: For wrong input.
    """
    if bool(grid) == bool(search):
        raise ConfigError("Give either --grid or --search. See --help.")
    given = dict(os.environ) if name is None else dict(os.environ) | {"SAC_EXP_NAME": name}
    environ = start.environment_of_runs(read_variables(variables, given))
    settings = Settings.from_environ(environ)
    values, ranges = parse_grid(grid), parse_ranges(search)
    for trial in grid_trials(values):
        bindings_of(trial.assignments)  # checks all before the first is trained
    for varied, range_ in ranges.items():
        bindings_of([f"{varied}={range_.low!r}", f"{varied}={range_.high!r}"])
    name = settings.exp_dir.name  # of a task of a job array, too
    environ.pop("SLURM_ARRAY_TASK_ID", None)
    commands = _commands(settings.placement, parallel)
    folder = pathlib.Path("logs") / f"{name}_sweep"
    folder.mkdir(parents=True, exist_ok=True)
    study = Study(folder / "study.log", ranges) if ranges else None
    runner = Runner(environ, name, folder, commands)
    earlier = study.earlier_trials()[:trials] if study else list(grid_trials(values))
    for number in range(trials if study else len(earlier)):
        runner.check_earlier(earlier[number] if number < len(earlier) else Trial(number, {}), seed)
    planned = study.trials(trials) if study else iter(earlier)
    scores = run_trials(planned, study, runner, seed, parallel)
    if runner.is_stopped:
        print("Stopped. The same command resumes.")
        return EXIT_STOPPED
    _write_results(folder, scores, runner, seed)
    return 0 if scores and not runner.failed else 1


def _commands(placement: str, parallel: int) -> list[list[str]]:
    """Returns the command that trains an experiment, for each of those that run at a time.

    On this machine they divide its CPUs. On a cluster, an experiment waits for its CPUs.

    Raises:
      ConfigError: If there are fewer CPUs.
    """
    module = {"slurm": "tfagents_system.launch.clusters.slurm_wait"}.get(placement, start.MODULE)
    command = [sys.executable, "-m", module]
    if placement != "local":
        return [command] * parallel
    cpus = available_cpus()
    if parallel > cpu_count():
        raise ConfigError(f"--parallel is {parallel}, but there are {cpu_count()} CPUs.")
    sets = [cpu_list(cpus[i::parallel]) for i in range(parallel)]
    return [["taskset", "--cpu-list", cpu_set, *command] for cpu_set in sets]


class Runner:
    """Runs experiments, several at a time; Ctrl-C and SIGTERM stop all."""

    def __init__(
        self,
        environ: Mapping[str, str],
        name: str,
        folder: pathlib.Path,
        commands: Iterable[Sequence[str]],
    ):
        """Handles signals from now on; main thread only.

        Args:
          environ: The SAC_* variables of all experiments.
          name: Prefix of the names of their folders.
          folder: Folder of their output.
          commands: One for each experiment that runs at a time, each with its own CPUs.
        """
        self.is_stopped = False
        self.failed: list[str] = []  # names of experiments
        self._environ, self._name, self._folder = dict(environ), name, folder
        self._commands: queue.SimpleQueue[Sequence[str]] = queue.SimpleQueue()
        for command in commands:
            self._commands.put(command)
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.RLock()  # reentrant, because the handler may interrupt its holder
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, frame: self.stop())

    def paths_of(self, trial: Trial, seed: int) -> ExperimentPaths:
        """Returns the experiment of a trial with a seed."""
        name = f"{self._name}_trial_{trial.number}_seed_{seed}"
        return ExperimentPaths(pathlib.Path("logs") / name)

    def group_of(self, trial: Trial, seeds: Sequence[int]) -> RunGroup:
        """Returns the experiments of a trial."""
        values = ", ".join(trial.assignments)
        return RunGroup(f"{trial.number}: {values}", [self.paths_of(trial, s) for s in seeds])

    def stop(self) -> None:
        """Stops all running experiments, in order and with everything saved."""
        with self._lock:
            self.is_stopped = True
            for run in self._running:
                run.terminate()

    def check_earlier(self, trial: Trial, seeds: Sequence[int]) -> None:
        """Raises ConfigError if an experiment of this number was trained with other settings."""
        for seed in seeds:
            if (paths := self.paths_of(trial, seed)).root.exists():
                check_is_same(paths, self._environ_of(trial, seed))

    def run(self, trial: Trial, seed: int) -> None:
        """Trains until the experiment is finished, fails, or all are stopped; blocks."""
        paths = self.paths_of(trial, seed)
        if paths.finished.exists():
            return
        log = self._folder / f"{paths.root.name}.log"
        command = self._commands.get()  # another experiment takes it
        try:
            code = self._run(self._environ_of(trial, seed), command, log)
        finally:
            self._commands.put(command)
        if code and not self.is_stopped:
            self.failed.append(paths.root.name)
            print(f"{paths.root} failed (exit code {code}): see {log}", flush=True)

    def _environ_of(self, trial: Trial, seed: int) -> dict[str, str]:
        """Returns the environment in which an experiment is trained."""
        named = {"SAC_EXP_NAME": self.paths_of(trial, seed).root.name, "SAC_SEED": str(seed)}
        return with_bindings({**self._environ, **named}, bindings_of(trial.assignments))

    def _run(self, environ: Mapping[str, str], command: Sequence[str], log: pathlib.Path) -> int:
        """Runs an experiment and returns its exit code; 0 if a stop prevents its start."""
        with log.open("ab") as output:
            with self._lock:
                if self.is_stopped:
                    return 0
                print(f"{environ['SAC_EXP_NAME']}: {log}", flush=True)
                run = subprocess.Popen(
                    command, **there(environ), stdin=subprocess.DEVNULL,
                    stdout=output, stderr=output,
                    start_new_session=True,  # Ctrl-C reaches it only through `stop`
                )  # fmt: skip
                self._running.add(run)
            code = run.wait()
        with self._lock:
            self._running.discard(run)
        return code


def run_trials(
    planned: Iterator[Trial],
    study: Study | None,
    runner: Runner,
    seeds: Sequence[int],
    parallel: int,
) -> dict[int, tuple[Trial, float]]:
    """Runs the trials, `parallel` experiments at a time; returns those with a score by number."""
    scores = {}
    ended: queue.SimpleQueue[Trial] = queue.SimpleQueue()

    def run(trial: Trial) -> None:
        try:
            with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
                list(pool.map(lambda seed: runner.run(trial, seed), seeds))
        finally:
            ended.put(trial)

    num_running, is_more = 0, True
    most_running = -(-parallel // len(seeds))
    with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
        while is_more or num_running:
            while is_more and num_running < most_running:
                trial = None if runner.is_stopped else next(planned, None)
                is_more = trial is not None
                if trial is not None:
                    pool.submit(run, trial)
                    num_running += 1
            if not num_running:
                break
            try:
                trial = ended.get(timeout=1.0)
            except queue.Empty:  # so that this thread handles signals
                continue
            num_running -= 1
            score = score_of(runner.group_of(trial, seeds))
            if score is not None and not runner.is_stopped:
                scores[trial.number] = trial, score
                if study is not None:
                    study.tell(trial, score)
    return scores


def score_of(group: RunGroup) -> float | None:
    """Returns the mean over seeds of the last evaluation; None if a seed is not finished."""
    if not all(paths.finished.exists() for paths in group.experiments):
        return None
    try:
        return float(scores_of(group, num_evaluations=1)[0].mean())
    except ConfigError:  # it was never evaluated
        return None


def _write_results(
    folder: pathlib.Path,
    scores: Mapping[int, tuple[Trial, float]],
    runner: Runner,
    seeds: Sequence[int],
) -> None:
    ranked = sorted(scores.values(), key=lambda pair: -pair[1])
    if not ranked:
        print("No trial has an evaluation: a score is that of the last one.")
        return
    rows = [["trial", *ranked[0][0].values, "mean_return"]]
    rows += [[str(trial.number), *map(str, trial.values.values()), f"{score:.6g}"]
             for trial, score in ranked]  # fmt: skip
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows(rows)
    write_text_atomically(folder / "sweep.csv", table.getvalue())
    draw_panels(
        [runner.group_of(trial, seeds) for trial, _ in ranked[:NUM_PLOTTED]],
        folder / "sweep.png",
    )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
    print(f"{folder / 'sweep.csv'}, {folder / 'sweep.png'}")
