"""Shows the results of a sweep: table, CSV, plot, and TensorBoard's HPARAMS."""

import csv
import io
import pathlib
import shutil
from collections.abc import Sequence

import numpy as np

from tfagents_system.commands.sweeps.task_sweep import FINISHED, TaskSweep, TrialResult
from tfagents_system.comparison.compare import shown_interval
from tfagents_system.comparison.plots import draw_panels
from tfagents_system.comparison.run_groups import RunGroup
from tfagents_system.core.display import printable
from tfagents_system.core.state.files import write_text_atomically
from tfagents_system.records import bootstrap
from tfagents_system.records.hparams import write_hparams

NUM_PLOTTED = 6  # number of best trials


def show_results(sweep: TaskSweep) -> None:
    """Writes sweep.csv, sweep.png and hparams/ in the sweep's folder, and prints the table."""
    results, folder = sweep.results(), sweep.task.folder
    num_seeds = len(sweep.task.seeds)
    if not results:
        return
    _print(_shown_rows(results, num_seeds))  # first, because the disk may be full
    _write_csv(folder / "sweep.csv", results)
    evaluated = [result for result in results if result.evaluated]
    if not evaluated:
        if any(result.state == FINISHED for result in results):
            print("No trial has an evaluation: its return is that of the last one.")
        return
    draw_panels([_group_of(result) for result in evaluated[:NUM_PLOTTED]], folder / "sweep.png")
    _write_hparams(folder / "hparams", evaluated)
    print(printable(", ".join(str(folder / name) for name in ("sweep.csv", "sweep.png"))))
    print(printable(f"All runs side by side: tensorboard --logdir {folder / 'hparams'}"))


def mean_and_interval(returns: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """Returns the mean over seeds and its 95 % bootstrap interval, as in the plot."""
    values = np.array(returns)[:, np.newaxis]
    low, high = bootstrap.mean_interval(values, np.random.default_rng(0))
    return float(values.mean()), (float(low[0]), float(high[0]))


def _write_csv(file: pathlib.Path, results: Sequence[TrialResult]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = ["mean_return", "interval_low", "interval_high", "seeds", "state"]
    has_success = _has_success(results)
    columns += ["success_rate"] if has_success else []
    writer.writerow(["trial", *results[0].trial.values, *columns])
    for result in results:
        numbers: list[float | str] = ["", "", ""]
        if result.evaluated:
            mean, (low, high) = mean_and_interval(result.returns)
            numbers = [f"{number:.6g}" for number in (mean, low, high)]
        rate = result.success_rate
        success = ["" if rate is None else f"{rate:.6g}"] if has_success else []
        writer.writerow([result.trial.number, *result.trial.values.values(), *numbers,
                         len(result.evaluated), result.state, *success])  # fmt: skip
    write_text_atomically(file, text.getvalue())


def _shown_rows(results: Sequence[TrialResult], num_seeds: int) -> list[list[str]]:
    has_success = _has_success(results)
    numbers = ["return", "95 % interval", *(["success"] if has_success else [])]
    rows = [["trial", *results[0].trial.values, *numbers, "seeds", "state"]]
    for result in results:
        shown = ["-", "-"]
        if result.evaluated:
            mean, interval = mean_and_interval(result.returns)
            shown = [f"{mean:.6g}", shown_interval(interval)]
        if has_success:
            shown.append("-" if (rate := result.success_rate) is None else f"{rate:.0%}")
        seeds = f"{len(result.evaluated)} of {num_seeds}"
        values = [f"{v:.6g}" if isinstance(v, float) else str(v)
                  for v in result.trial.values.values()]  # fmt: skip
        rows.append([str(result.trial.number), *values, *shown, seeds, result.state])
    return rows


def _has_success(results: Sequence[TrialResult]) -> bool:
    return any(result.success_rate is not None for result in results)


def _print(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        print(printable("  ".join(cells)))


def _group_of(result: TrialResult) -> RunGroup:
    values = ", ".join(result.trial.assignments)
    name = f"{result.trial.number}: {values}" if values else str(result.trial.number)
    return RunGroup(name, [seed.experiment.paths for seed in result.evaluated])


def _write_hparams(folder: pathlib.Path, results: Sequence[TrialResult]) -> None:
    """Replaces the record of each run: the settings that differ, its last return and success."""
    shutil.rmtree(folder, ignore_errors=True)
    for result in results:
        for experiment, point in result.evaluated:
            settings = {**result.trial.values, "seed": experiment.seed}
            numbers = {"final_return": point.mean_return}
            if point.success_rate is not None:
                numbers["final_success_rate"] = point.success_rate
            write_hparams(folder / experiment.name, settings, numbers, point.train_step)
