"""Writes a report on an experiment: one HTML file that opens without network.

Example: sac report logs/pendulum
It has the hyperparameters, marked where they differ from the defaults, zoomable curves, the
evaluations, films of the first, the middle and the best policy, the use of time, and the
provenance. Reads what the programs have written, also while they run. With --film, it makes films
that neither run.py nor training has made: that runs the experiment's params.py.
"""

import json
import pathlib
import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfagents_system.agents.agent_settings import AgentSettings
from tfagents_system.comparison import report_sections as sections
from tfagents_system.comparison.curves import curves_of
from tfagents_system.comparison.report_films import find_films, make_films, num_missing_films
from tfagents_system.core.display import printable
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.hyperparameters import hyperparameters
from tfagents_system.core.settings.training_settings import TrainingSettings
from tfagents_system.core.state.files import read_json, write_text_atomically
from tfagents_system.core.state.paths import ExperimentPaths, existing_experiment
from tfagents_system.core.state.reports import read_phase_secs, report_or_none
from tfagents_system.records.run_history import EvaluationPoint, read_evaluations
from tfagents_system.terminal.lines import Terminal

PAGE = pathlib.Path(__file__).with_name("report.html")


def report(
    exp_dir: pathlib.Path, /, output: pathlib.Path | None = None, film: bool = False
) -> None:
    """Writes the report of an experiment and prints the name of the file.

    Args:
      exp_dir: Folder of the experiment.
      output: HTML file to write. Default: report.html in exp_dir.
      film: Make missing films of the first, the middle and the best policy. That runs the
        experiment's params.py.

    Raises:
      ConfigError: If there is no such experiment, or a file cannot be read or written.
    """
    paths = existing_experiment(exp_dir)
    output = output or paths.root / "report.html"
    terminal, points = Terminal(sys.stderr), read_evaluations(paths)
    if film:
        make_films(paths, points, terminal)
    elif missing := num_missing_films(paths, points):
        terminal.print(f"The report lacks films of {missing} policies: --film makes them, and runs "
                       f"{paths.params} for that.")  # fmt: skip
    try:
        page = make_page(paths)
    except (OSError, json.JSONDecodeError) as error:
        raise ConfigError(f"No report of {exp_dir}: {error}") from error
    try:
        write_text_atomically(output, page)
    except OSError as error:
        raise ConfigError(f"Cannot write {output}: {error.strerror}. Set --output.") from error
    print(printable(output))


def make_page(paths: ExperimentPaths) -> str:
    """Returns the HTML of the report."""
    name = paths.root.resolve().name
    points = read_evaluations(paths)
    charts = json.dumps(make_charts(paths, points)).replace("<", "\\u003c")  # "</script>" in a name
    values = {"TITLE": sections.text(name), "BODY": _body(paths, name, points), "CHARTS": charts}
    # All marks at once, because an inserted text may look like a mark.
    return re.sub("@(TITLE|BODY|CHARTS)@", lambda mark: values[mark[1]], PAGE.read_text())


def make_charts(paths: ExperimentPaths, points: Sequence[EvaluationPoint]) -> list[dict[str, Any]]:
    """Returns the curves; returns have their standard deviation over episodes."""
    deviations = {
        "train steps": {float(p.train_step): float(np.std(p.returns)) for p in points},
        "env steps": {float(p.env_step): float(np.std(p.returns)) for p in points},
        "minutes of training": {p.training_secs / 60: float(np.std(p.returns)) for p in points},
    }
    charts = []
    for (title, x_label), curve in curves_of(paths, points).items():
        chart = {"title": title, "x_label": x_label, "xs": curve.xs, "ys": curve.ys}
        low = high = None
        if title == "episode return":
            spread = [deviations[x_label][x] for x in curve.xs]
            low = [y - s for y, s in zip(curve.ys, spread, strict=True)]
            high = [y + s for y, s in zip(curve.ys, spread, strict=True)]
        charts.append(chart | {"low": low, "high": high})
    return charts


def _body(paths: ExperimentPaths, name: str, points: Sequence[EvaluationPoint]) -> str:
    spec, provenance = _read_object(paths.run_spec), _read_object(paths.provenance)
    parts = [f"<h1>{sections.text(name)}</h1>", f'<p class="muted">{_summary(paths, points)}</p>']
    parts += [
        "<h2>Curves</h2>",
        '<p class="muted">Returns: mean and standard deviation over the episodes of an evaluation. '
        "Drag over a part to zoom in, double-click to see all.</p>",
        '<div class="grid" id="curves"></div>',
    ]
    if points:
        parts += ["<h2>Evaluations</h2>", sections.evaluations(points)]
    if choices := sections.choices(points):
        parts += ["<h2>Choices of the newest policy</h2>", choices]
    if films := find_films(paths, points):
        parts += ["<h2>Films</h2>", sections.videos(films)]
    if isinstance(spec.get("settings"), dict):
        declared = hyperparameters(TrainingSettings, AgentSettings)
        parts += ["<h2>Configuration</h2>", sections.settings(spec["settings"], declared)]
        others = {key: value for key, value in spec.items() if key not in ("settings", "files")}
        parts.append(sections.details("observation, action, items, bindings", others))
        parts.append(sections.details("config", read_json(paths.config)))
    if phase_secs := read_phase_secs(paths):
        parts += ["<h2>Where the time went</h2>", sections.time_profile(phase_secs)]
    if provenance:
        rows = [
            (key, value if value is None or isinstance(value, str) else sections.shown(value))
            for key, value in provenance.items()
            if key != "packages"
        ]
        parts += ["<h2>Provenance</h2>", sections.table(("what", "value"), rows)]
        parts.append(sections.details("packages", provenance.get("packages", {})))
    return "\n".join(parts)


def _summary(paths: ExperimentPaths, points: Sequence[EvaluationPoint]) -> str:
    words = []
    if learner := report_or_none(paths, "learner"):
        words.append(f"{learner.phase} at train step {learner.train_step:,}"
                     f" of {learner.total_train_steps:,}")  # fmt: skip
    if points:
        best = max(points, key=lambda point: point.mean_return)
        words.append(f"{points[-1].env_step:,} env steps")
        words.append(f"{points[-1].training_secs / 60:.1f} minutes of training")
        words.append(f"last evaluation {points[-1].mean_return:.6g}")
        if (success_rate := points[-1].success_rate) is not None:
            words.append(f"success {success_rate:.0%}")
        words.append(f"best {best.mean_return:.6g} at train step {best.train_step:,}")
    return sections.text("; ".join(words) or "no evaluation yet")


def _read_object(path: pathlib.Path) -> dict[str, Any]:
    """Returns the JSON object in `path`; an empty one if there is no such file."""
    value = read_json(path)
    if value is not None and not isinstance(value, dict):
        raise ConfigError(f"{path}: damaged (not a JSON object). Repair it or move it away.")
    return value or {}
