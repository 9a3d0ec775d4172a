"""Sweeps settings: trains each with each seed, several at a time, and ranks them by return.

Example: sac sweep my_variables.sh --grid train_batch_size=128,256 --seed 1 2 --parallel 2

`--search critic_learning_rate=1e-4:1e-2:log --trials 20` lets Optuna choose the settings instead.
Several variables files are swept one after another. Each trial is one experiment for each seed:
logs/NAME_trial_<k>_seed_<s>. One that fails is named, and the others run on. The same command goes
on after a stop: it skips finished experiments and resumes the others. For other settings, give
another --name. Output and results are in logs/NAME_sweep.
"""

import contextlib
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from tfagents_system.commands.bindings import bindings_of
from tfagents_system.commands.sweeps.experiments import Task
from tfagents_system.commands.sweeps.progress import Progress
from tfagents_system.commands.sweeps.runs import ParallelRuns, slots_of
from tfagents_system.commands.sweeps.schedule import Schedule
from tfagents_system.commands.sweeps.study import Study
from tfagents_system.commands.sweeps.table import show_results
from tfagents_system.commands.sweeps.task_sweep import TaskSweep
from tfagents_system.commands.sweeps.trials import (
    Range,
    Trial,
    grid_trials,
    parse_grid,
    parse_ranges,
)
from tfagents_system.core.errors import EXIT_STOPPED, ConfigError
from tfagents_system.core.programs.command_line import AtLeast
from tfagents_system.core.settings.variables import Settings
from tfagents_system.core.state.file_locks import open_lock, try_lock
from tfagents_system.terminal.lines import Terminal


def sweep(
    variables: tuple[pathlib.Path, ...],
    /,
    grid: tuple[str, ...] = (),
    search: tuple[str, ...] = (),
    set_: tuple[str, ...] = (),
    trials: Annotated[int, AtLeast(1)] = 20,
    prune: bool = False,
    seed: tuple[int, ...] = (1,),
    parallel: Annotated[int, AtLeast(1)] = 1,
    name: str | None = None,
) -> int:
    """Runs the trials and prints a table, best first; returns the exit code.

    Args:
      variables: Variables files of the experiments to vary.
      grid: Values of hyperparameters, NAME=V1,V2,...; all combinations are tried.
      search: Ranges of hyperparameters, NAME=LOW:HIGH or NAME=LOW:HIGH:log, for Optuna.
      set_: Hyperparameters of all trials, such as num_iter=500.
      trials: Number of settings that Optuna tries.
      prune: With --search, stop a trial once its best evaluation is below the median of the
        completed trials, if there are five of them.
      seed: Seeds; each trial is trained with each of them.
      parallel: Experiments at a time; on this machine they divide the CPUs.
      name: Name of the sweep. Default: the name in the variables file.

    Raises:
      ConfigError: For wrong input.
    """
    seeds = tuple(dict.fromkeys(seed))
    if grid and search:
        raise ConfigError("Give either --grid or --search. See --help.")
    if prune and not search:
        raise ConfigError("--prune is for --search: all trials of --grid are trained to their end.")
    if not (grid or search or len(seeds) > 1 or len(variables) > 1):
        raise ConfigError("Nothing varies: give --grid or --search, seeds, or several variables "
                          "files. See --help.")  # fmt: skip
    values, ranges = parse_grid(grid), parse_ranges(search)
    tasks = _tasks(variables, name, _checked_bindings(values, ranges, set_), seeds)
    num_trials = trials if ranges else len(list(grid_trials(values)))
    for task in tasks:
        for last in task.experiments_of(Trial(num_trials - 1, {})):
            Settings.from_environ(last.environ)  # refuses a seed, or a name that is too long
    slots = slots_of(tasks[0].placement, parallel)
    with contextlib.ExitStack() as locks:
        for task in tasks:
            task.folder.mkdir(parents=True, exist_ok=True)
            locks.enter_context(_lock(task.folder))
        if ranges:
            sweeps = [_search_of(task, ranges, trials) for task in tasks]
        else:
            sweeps = [_grid_of(task, list(grid_trials(values))) for task in tasks]
        total = len(tasks) * len(seeds) * num_trials
        runs = ParallelRuns(slots)
        Schedule(sweeps, runs, Progress(total), Terminal(), prune).run()
        for each in sweeps:
            if len(sweeps) > 1:
                print(f"{each.task.name}:")
            show_results(each)
    if runs.is_stopped:
        print("Stopped. The same command resumes.")
        return EXIT_STOPPED
    if failed := [name for each in sweeps for name in each.failed]:
        print(f"Failed: {', '.join(failed)}. The same command tries them again.")
    is_evaluated = all(any(result.evaluated for result in each.results()) for each in sweeps)
    return 0 if is_evaluated and not failed else 1


def _checked_bindings(
    values: Mapping[str, Sequence[Any]], ranges: Mapping[str, Range], set_: Sequence[str]
) -> list[str]:
    """Returns the gin bindings of --set; checks the bindings of all trials before training."""
    for trial in grid_trials(values):
        bindings_of(trial.assignments, "--grid")
    for name, range_ in ranges.items():
        bindings_of([f"{name}={range_.low!r}", f"{name}={range_.high!r}"], "--search")
    for assignment in set_:
        name = assignment.partition("=")[0].strip()
        if name in values or name in ranges:
            flag = "--grid" if name in values else "--search"
            raise ConfigError(f"--set and {flag} both have {name}. Give it only once.")
    return bindings_of(set_)


def _tasks(
    variables: Sequence[pathlib.Path], name: str | None, bindings: Sequence[str],
    seeds: Sequence[int],
) -> list[Task]:  # fmt: skip
    """Returns the tasks of variables files.

    Raises:
      ConfigError: If a file is wrong, or they cannot be swept together.
    """
    if not variables:
        raise ConfigError("What is to be swept? Give a variables file. See --help.")
    if name is not None and len(variables) > 1:
        raise ConfigError(f"--name is {name!r}: allowed for one variables file only, because each "
                          "gives its sweep a name.")  # fmt: skip
    tasks: list[Task] = []
    for file in variables:
        task = Task.read(file, name, bindings, seeds)
        for other, before in zip(variables, tasks, strict=False):
            if task.name == before.name:
                raise ConfigError(f"{other} and {file} have the same SAC_EXP_NAME, {task.name}. "
                                  "Each needs its own.")  # fmt: skip
            if task.placement != before.placement:
                raise ConfigError(
                    f"SAC_PLACEMENT is {before.placement} in {other} and {task.placement} in "
                    f"{file}. Sweep them by two commands."
                )
        tasks.append(task)
    return tasks


def _grid_of(task: Task, trials: Sequence[Trial]) -> TaskSweep:
    _check_earlier(task, trials)
    return TaskSweep(task, iter(trials), None)


def _search_of(task: Task, ranges: Mapping[str, Range], num_trials: int) -> TaskSweep:
    study = Study(task.folder / "study.log", ranges)
    earlier = study.earlier_trials()[:num_trials]
    # An experiment with a number that the study does not know belongs to another sweep.
    numbers = range(study.num_asked, study.num_asked + num_trials - len(earlier))
    _check_earlier(task, [*earlier, *(Trial(number, {}) for number in numbers)])
    return TaskSweep(task, study.trials(num_trials), study)


def _check_earlier(task: Task, trials: Sequence[Trial]) -> None:
    """Raises ConfigError if an experiment was trained with other settings than its trial's."""
    for trial in trials:
        for experiment in task.experiments_of(trial):
            experiment.check_earlier()


@contextlib.contextmanager
def _lock(folder: pathlib.Path) -> Iterator[None]:
    """Locks the folder of a sweep.

    Raises:
      ConfigError: If another process has it.
    """
    with os.fdopen(open_lock(folder / "lock"), "ab") as file:
        if not try_lock(file.fileno()):
            raise ConfigError(f"{folder}: this sweep is running already. Choose another --name.")
        yield
