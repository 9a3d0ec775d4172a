"""Makes the table of the zoo's results from the finished experiments in logs/.

Example: sac train zoo/hopper_bullet.sh --seed 1 2 3; python -m zoo.table

A result is the last evaluation of an experiment `<task>_seed_<seed>`. Writes zoo/results.csv, which
keeps the results of other machines and earlier runs, and the table in docs/zoo.md.
"""

import csv
import io
import json
import pathlib
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfagents_system.core.programs.command_line import run_tool
from tfagents_system.core.state.files import write_text_atomically
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.records import bootstrap
from tfagents_system.records.run_history import read_evaluations
from zoo import published

ZOO = pathlib.Path(__file__).parent
PROJECT = ZOO.parent
PAGE = PROJECT / "docs/zoo.md"
MARKS = "<!-- table -->\n", "<!-- end of table -->\n"
EXAMPLES = {"pendulum": "Pendulum-v1", "minitaur": "MinitaurBulletEnv-v0"}
# Experiments of `sac train --env ENVIRONMENT --name TASK`, with the settings that it writes.
DEFAULTS = {
    "acrobot_defaults": "Acrobot-v1", "cart_pole_defaults": "CartPole-v1",
    "lunar_lander_defaults": "LunarLander-v3", "minigrid_empty": "minigrid:MiniGrid-Empty-5x5-v0",
}  # fmt: skip


class Row(NamedTuple):
    """A row of the table."""

    environment: str
    trained_by: str  # a command, or a variables file
    action_repeat: int = 1  # simulator steps of an env step; published returns count those


class Result(NamedTuple):
    """The last evaluation of an experiment."""

    task: str
    seed: int
    env_steps: int
    mean_return: float
    minutes: float  # of training
    cpu: str
    commit: str
    success_rate: float | None = None  # 0 to 1; None if the environment reports no success


def tasks() -> dict[str, Row]:
    """Returns the rows of tasks that have a variables file, by name."""
    found = {name: Row(environment, f"training_variables_{name}.sh")
             for name, environment in EXAMPLES.items()}  # fmt: skip
    for path in sorted(ZOO.glob("*.json")):
        variables = path.with_suffix(".sh")
        repeat = re.search(r"TrainParams\.action_repeat = (\d+)", variables.read_text())
        found[path.stem] = Row(
            json.loads(path.read_text())["environment"],
            f"zoo/{variables.name}",
            int(repeat[1]) if repeat else 1,
        )
    return found


def rows() -> dict[str, Row]:
    """Returns each row of the table by name."""
    return {name: Row(env, f"sac train --env {env}") for name, env in DEFAULTS.items()} | tasks()


def runs_in(logs: pathlib.Path, task: str) -> list[tuple[int, ExperimentPaths]]:
    """Returns seed and experiment of each `<task>_seed_<seed>` in `logs`, and of no others."""
    named = ((re.fullmatch(rf"{task}_seed_(\d+)", path.name), path) for path in logs.glob("*"))
    return sorted((int(name[1]), ExperimentPaths(path)) for name, path in named if name)


def results_in(logs: pathlib.Path) -> list[Result]:
    """Returns the results of the experiments in `logs` that are finished."""
    found = []
    for task in rows():
        for _, paths in runs_in(logs, task):
            if paths.finished.exists() and (points := read_evaluations(paths)):
                origin, last = json.loads(paths.provenance.read_text()), points[-1]
                found.append(Result(
                    task, origin["seed"], last.env_step, round(last.mean_return, 2),
                    round(last.training_secs / 60, 1), origin["cpu_model"],
                    (origin["git_hash"] or "")[:10], last.success_rate,
                ))  # fmt: skip
    return found


def merged(old: Iterable[Result], new: Iterable[Result]) -> list[Result]:
    """Returns one result for each task and seed, in order; a new one replaces an old one."""
    by_run = {(result.task, result.seed): result for result in (*old, *new)}
    return [by_run[run] for run in sorted(by_run)]


def table(results: Sequence[Result]) -> str:
    """Returns the table in Markdown."""
    lines = ["| task | env steps | seeds | return, 95 % interval | published | minutes |",
             "| --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for task, row in rows().items():
        of_task = [result for result in results if result.task == task]
        cells = ["", "", "not run yet", "", ""]
        if of_task:
            returns = np.array([result.mean_return for result in of_task])
            low, high = bootstrap.mean_interval(returns[:, None], np.random.default_rng(0))
            interval = f" [{low.item():,.0f}, {high.item():,.0f}]" if len(returns) > 1 else ""
            minutes = np.mean([result.minutes for result in of_task])
            env_steps = max(result.env_steps for result in of_task)
            cells[0] = f"{env_steps:,}"
            cells[1] = str(len(of_task))
            cells[2] = f"{returns.mean():,.0f}{interval}"
            rates = [r.success_rate for r in of_task if r.success_rate is not None]
            if rates:
                cells[2] += f", success {np.mean(rates):.0%}"
            num_simulator_steps = env_steps * row.action_repeat
            cells[3] = published.text_for(task, row.environment, num_simulator_steps)
            cells[4] = f"{minutes:.1f}"
        lines.append(f"| {row.environment}, `{row.trained_by}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def read_results(path: pathlib.Path) -> list[Result]:
    """Returns the results in a file written by `write_rows`; none if it does not exist."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [
            Result(row["task"], int(row["seed"]), int(row["env_steps"]), float(row["mean_return"]),
                   float(row["minutes"]), row["cpu"], row["commit"],
                   float(row["success_rate"]) if row.get("success_rate") else None)
            for row in csv.DictReader(file)
        ]  # fmt: skip


def write_rows(path: pathlib.Path, fields: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> None:
    """Writes a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([tuple(fields), *rows])
    write_text_atomically(path, text.getvalue())


def main() -> None:
    """Updates both files from logs/ of this folder."""
    path = ZOO / "results.csv"
    results = merged(read_results(path), results_in(pathlib.Path("logs")))
    write_rows(path, Result._fields, results)
    head, rest = PAGE.read_text().split(MARKS[0])
    tail = rest.split(MARKS[1])[1]
    write_text_atomically(PAGE, head + MARKS[0] + table(results) + MARKS[1] + tail)
    print(table(results), end="")


if __name__ == "__main__":
    run_tool(main, sys.argv)
