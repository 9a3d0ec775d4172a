"""Trains small tasks and agents of a build in turns by ML-Agents' own SAC trainer and by ours.

Example: python -m benchmarks.peers.mlagents --seeds 2 --task continuous "hybrid 1 1" ball
Adds a row to docs/results/mlagents.csv for each run that it lacks, and prints the table of all.
The small tasks have the settings of ML-Agents' tests; ours are those of benchmarks/ours/simple.py,
but with env steps and train steps in turns, as ML-Agents has them. Agents of a build have one
trainer configuration.
"""

import csv
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from benchmarks import harness
from benchmarks.ours import simple
from benchmarks.ours.programs import PROJECT
from benchmarks.ours.simple_budgets import IMITATED
from benchmarks.peers.mlagents_settings import BUILDS, Criterion, configuration_of, criterion_of
from benchmarks.process_stats import descendants_cpu_secs
from benchmarks.result_rows import append_row, read_rows
from tfagents_system.core.programs.command_line import AtLeast, OneOf, run_tool
from tfagents_system.demonstrations.files import read_demonstrations
from tfagents_system.demonstrations.unity_demo_writer import write_unity_demo
from tfagents_system.tasks.simple import TASKS

RESULTS = PROJECT / "docs/results/mlagents.csv"
HEADER = (
    "contestant", "task", "seed", "part", "env_steps", "env_steps_to_criterion", "last_return",
    "passed", "env_steps_per_sec", "cpu_seconds",
)  # fmt: skip
MEASURED = (
    "continuous", "discrete", "continuous 2", "discrete 2", "image", "nature_cnn image",
    "hybrid 1 1", "discrete memory", *IMITATED, *BUILDS,
)  # fmt: skip
TRAINING, START = "training", "start"  # START: with one env step or iteration
PEER_PYTHON = PROJECT / "benchmarks" / ".venv-mlagents" / "bin" / "python"
STAND_IN = PROJECT / "tests" / "environments" / "unity" / "stand_in.py"
NUM_LATER = 20  # episodes that show that the criterion was not met by chance


class Episode(NamedTuple):
    """A training episode."""

    env_step: int  # of all agents, when it ended
    episode_return: float
    wall_time: float


def steps_to_criterion(episodes: Sequence[Episode], criterion: Criterion) -> int | None:
    """Returns the env step at which the last episodes are above the threshold, and stay there.

    To stay means that the mean of the next NUM_LATER episodes is above it, too. None if never.
    """
    returns = [episode.episode_return for episode in episodes]
    for last in range(criterion.num_episodes - 1, len(returns)):
        before = returns[last + 1 - criterion.num_episodes : last + 1]
        after = returns[last : last + NUM_LATER]
        if min(map(statistics.fmean, (before, after))) > criterion.threshold:
            return episodes[last].env_step
    return None


def result_of(episodes: Sequence[Episode], criterion: Criterion) -> tuple[Any, ...]:
    """Returns the columns env_steps to env_steps_per_sec of a training."""
    if len(episodes) < 2:
        return episodes[-1].env_step if episodes else 0, None, None, False, None
    first, last = episodes[0], episodes[-1]
    mean = statistics.fmean(
        episode.episode_return for episode in episodes[-criterion.num_episodes :]
    )
    rate = (last.env_step - first.env_step) / (last.wall_time - first.wall_time)
    return (
        last.env_step, steps_to_criterion(episodes, criterion), round(mean, 3),
        mean > criterion.threshold, round(rate),
    )  # fmt: skip


def train_by_peer(task: str, seed: int, part: str, folder: pathlib.Path) -> list[Episode]:
    """Trains in ML-Agents' environment; returns the training episodes."""
    command = [
        str(PEER_PYTHON), "-m", "benchmarks.peers.mlagents_trainer", f"--task={task}",
        f"--seed={seed}", *(["--max_steps=1"] if part == START else []),
        *([f"--build={write_build(folder)}"] if task in BUILDS else []),
        *([f"--demonstrations={write_demo(task, folder)}"] if task in IMITATED else []),
    ]  # fmt: skip
    output = _run(command, PROJECT).splitlines()[-1]
    return [Episode(*episode) for episode in json.loads(output)["episodes"]]


def train_ours(task: str, seed: int, part: str, folder: pathlib.Path) -> list[Episode]:
    """Trains by `sac train`; returns the training episodes."""
    num_iter = 1 if part == START else None
    if task in BUILDS:
        experiment = _train_agents(task, seed, num_iter, folder)
    else:
        in_turns = {"SAC_DETERMINISTIC": "1"}
        experiment = simple.train(task, seed, str(folder), num_iter, in_turns)
    with (experiment / "episodes" / "collect_0.csv").open(newline="") as file:
        return [
            Episode(int(row["env_step"]), float(row["return"]), float(row["wall_time"]))
            for row in csv.DictReader(file)
        ]


def _train_agents(task: str, seed: int, num_iter: int | None, folder: pathlib.Path) -> pathlib.Path:
    build, trainer = BUILDS[task], folder / "trainer.yaml"
    trainer.write_text(json.dumps(configuration_of(task)))  # which is YAML, too
    arguments = ("--task", task, "--agents", str(build.num_agents))
    command = [
        sys.executable, "-m", "tfagents_system", "train", f"--unity={write_build(folder)}",
        f"--mlagents={trainer}", f"--horizon={build.horizon}", "--workers=1", f"--name={task}",
        f"--seed={seed}", f"--env_kwargs=arguments={arguments!r}",
        *([f"--set=num_iter={num_iter}"] if num_iter else []),
    ]  # fmt: skip
    _run(command, folder)
    return folder / "logs" / task


def write_build(folder: pathlib.Path) -> pathlib.Path:
    """Writes the program that both start as a build: the stand-in in this Python."""
    path = folder / "Build.x86_64"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
    path.chmod(0o755)
    return path


def write_demo(task: str, folder: pathlib.Path) -> pathlib.Path:
    """Writes the demonstrations of a task of IMITATED as a file of ML-Agents, images [C, H, W]."""
    path, episodes = folder / "Simple.demo", []
    for episode in read_demonstrations(simple.write_demonstrations(task, folder)):
        observations = {
            name: np.moveaxis(array, -1, 1) if array.ndim == 4 else array
            for name, array in episode.observations.items()
        }
        episodes.append(dataclasses.replace(episode, observations=observations))
    write_unity_demo(path, episodes, branches=(2,))
    return path


def _run(command: Sequence[str], folder: pathlib.Path) -> str:
    environ = {n: v for n, v in os.environ.items() if n.lower() not in harness.PROXIES}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        )
    return done.stdout


CONTESTANTS: dict[str, Callable[[str, int, str, pathlib.Path], list[Episode]]] = {
    "ML-Agents": train_by_peer,
    "ours": train_ours,
}


def measure(contestant: str, task: str, seed: int, part: str) -> tuple[Any, ...]:
    """Trains once; returns the row. CPU seconds are those of all processes from start to end."""
    before = descendants_cpu_secs()
    with tempfile.TemporaryDirectory() as folder:
        episodes = CONTESTANTS[contestant](task, seed, part, pathlib.Path(folder))
        secs = descendants_cpu_secs() - before
    return contestant, task, seed, part, *result_of(episodes, criterion_of(task)), round(secs, 1)


def table(rows: Iterable[dict[str, str]]) -> str:
    """Returns the Markdown table of all measured tasks: env steps by seed, and means of the rest.

    Env steps/s only of the builds: the small tasks take seconds.
    """
    rows = list(rows)
    lines = [
        "| task | env steps to the criterion: ML-Agents | ours | ratio | CPU s, start alone: "
        "ML-Agents | ours | env steps/s: ML-Agents | ours |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for task in MEASURED:
        of_task = [row for row in rows if row["task"] == task]
        if not of_task:
            continue
        steps = [_steps(of_task, name) for name in CONTESTANTS]
        ratio = f"{steps[1] / steps[0]:.2f}" if all(steps) else ""
        cells = [
            task,
            *(_cell_of_steps(of_task, name) for name in CONTESTANTS),
            ratio,
            *(_cell_of_cpu(of_task, name) for name in CONTESTANTS),
            *(
                _mean(of_task, name, "env_steps_per_sec", ",.0f") if task in BUILDS else ""
                for name in CONTESTANTS
            ),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _values(
    rows: Iterable[dict[str, str]], contestant: str, column: str, part: str = TRAINING
) -> list[float]:
    return [
        float(row[column])
        for row in rows
        if (row["contestant"], row["part"]) == (contestant, part) and row[column]
    ]


def _steps(rows: list[dict[str, str]], contestant: str) -> float | None:
    """Returns the mean over seeds, or None if one did not meet the criterion."""
    values = _values(rows, contestant, "env_steps_to_criterion")
    seeds = _values(rows, contestant, "seed")
    return statistics.fmean(values) if values and len(values) == len(seeds) else None


def _cell_of_steps(rows: list[dict[str, str]], contestant: str) -> str:
    values = _values(rows, contestant, "env_steps_to_criterion")
    missed = len(_values(rows, contestant, "seed")) - len(values)
    return ", ".join([*(f"{value:,.0f}" for value in values), *["never"] * missed])


def _cell_of_cpu(rows: list[dict[str, str]], contestant: str) -> str:
    start = _mean(rows, contestant, "cpu_seconds", ".0f", START)
    return f"{_mean(rows, contestant, 'cpu_seconds', '.0f')}{f', {start}' if start else ''}"


def _mean(
    rows: list[dict[str, str]], contestant: str, column: str, form: str, part: str = TRAINING
) -> str:
    values = _values(rows, contestant, column, part)
    return format(statistics.fmean(values), form) if values else ""


def main(
    seeds: Annotated[int, AtLeast(0)] = 2,
    task: Annotated[tuple[str, ...], OneOf((*TASKS, *IMITATED, *BUILDS))] = MEASURED,
) -> int:
    """Trains what is missing, writes a row for each run, and prints the table.

    Args:
      seeds: Seeds of each task, from 1; 0 only prints the table.
      task: Names of tasks: small ones, and ball and grid of the stand-in for a build.
    """
    setup = [str(PROJECT / "benchmarks" / "setup_peers.sh"), "mlagents"]
    if seeds and (code := subprocess.run(setup).returncode):
        return code
    harness.adopt_orphans()
    known = {
        (row["contestant"], row["task"], int(row["seed"]), row["part"])
        for row in read_rows(RESULTS)
    }
    for seed in range(1, seeds + 1):
        for name in task:
            for part in (START, TRAINING) if seed == 1 else (TRAINING,):
                for contestant in CONTESTANTS:
                    if (contestant, name, seed, part) not in known:
                        append_row(RESULTS, HEADER, measure(contestant, name, seed, part))
    print(table(read_rows(RESULTS)))
    return 0


if __name__ == "__main__":
    run_tool(main, sys.argv)
