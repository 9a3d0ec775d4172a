"""Renders the sections of a report as HTML."""

import base64
import html
import json
import pathlib
import pprint
from collections.abc import Mapping, Sequence
from typing import Any

from tfagents_system.core.settings.hyperparameters import Hyperparameter
from tfagents_system.records.bootstrap import mean_and_standard_error
from tfagents_system.records.number_rows import ACTION_SHARE
from tfagents_system.records.run_history import EvaluationPoint, number_names

_COLORS = ("#1f6feb", "#2da44e", "#bf8700", "#cf222e", "#8250df", "#1b7c83", "#953800", "#6e7781")


def text(value: Any) -> str:
    """Returns `value` as HTML text."""
    return html.escape(str(value).encode(errors="replace").decode())  # invalid names


def table(header: Sequence[str], rows: Sequence[Sequence[Any]], changed: Sequence[int] = ()) -> str:
    """Returns a table; numbers are right-aligned, the rows in `changed` are marked."""
    columns = [[row[column] for row in rows] for column in range(len(header))]
    numeric = [any(isinstance(cell, (int, float)) for cell in column) for column in columns]
    kinds = [' class="number"' if is_number else "" for is_number in numeric]
    lines = [f"<th{kind}>{text(name)}</th>" for kind, name in zip(kinds, header, strict=True)]
    parts = [f"<table><tr>{''.join(lines)}</tr>"]
    for index, row in enumerate(rows):
        mark = ' class="changed"' if index in changed else ""
        cells = (f"<td{kind}>{_cell(value)}</td>" for kind, value in zip(kinds, row, strict=True))
        parts.append(f"<tr{mark}>{''.join(cells)}</tr>")
    return "\n".join([*parts, "</table>"])


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.6g}"
    if value is None:
        return "-"
    return f"{value:,}" if type(value) is int else text(value)


def evaluations(points: Sequence[EvaluationPoint]) -> str:
    """Returns the table of evaluations, newest first, with success and numbers of `log_info`."""
    rows, names = [], number_names(points)
    has_success = any(point.success_rate is not None for point in points)
    for point in reversed(points):
        mean, error = mean_and_standard_error(point.returns)
        rows.append((
            point.train_step, point.env_step, round(point.training_secs / 60, 1),
            len(point.returns), mean, error, min(point.returns), max(point.returns),
            *([_percent(point.success_rate)] if has_success else []),
            *(point.numbers.get(name) for name in names),
        ))  # fmt: skip
    header = ("train step", "env steps", "minutes", "episodes", "mean return", "standard error",
              "lowest", "highest", *(["success, %"] if has_success else []), *names)  # fmt: skip
    return f'<div class="scroll">{table(header, rows)}</div>'


def _percent(rate: float | None) -> float | None:
    return None if rate is None else round(100 * rate, 1)


def settings(values: Mapping[str, Any], declared: Mapping[str, Hyperparameter]) -> str:
    """Returns the table of hyperparameters, those that differ from their defaults first."""
    rows = []
    for name, value in values.items():
        default = declared[name].default if name in declared else None
        is_default = json.dumps(value) == json.dumps(default, default=str)
        meaning = declared[name].meaning if name in declared else ""
        meaning = meaning.replace("`", "")  # marks of the Markdown table
        rows.append((is_default, name, shown(value), shown(default), meaning))
    rows.sort(key=lambda row: row[0])  # keeps the order otherwise
    changed = [index for index, row in enumerate(rows) if not row[0]]
    header = ("hyperparameter", "value", "default", "meaning")
    return table(header, [row[1:] for row in rows], changed)


def shown(value: Any) -> str:
    """Returns a value that JSON can hold as a Python literal: None and True, not null and true."""
    return repr(json.loads(json.dumps(value, default=str)))


def time_profile(phase_secs: Mapping[str, Mapping[str, float]]) -> str:
    """Returns a bar for each program with its use of time since its newest start."""
    rows = []
    for program, secs in phase_secs.items():
        total = sum(secs.values()) or 1.0
        ranked = sorted(secs.items(), key=lambda item: -item[1])
        rows.append(
            f'<tr><td>{text(program)}</td><td class="number">{total:,.0f} s</td>'
            f"<td>{_bar({phase: value / total for phase, value in ranked})}</td></tr>"
        )
    return f"<table>{''.join(rows)}</table>"


def choices(points: Sequence[EvaluationPoint]) -> str:
    """Returns a bar for each branch of a discrete action, by the newest evaluation.

    It is "" if that evaluation has no shares of choices.
    """
    branches: dict[str, dict[str, float]] = {}
    for name, share in points[-1].numbers.items() if points else ():
        if name.startswith(ACTION_SHARE):
            branch, _, choice = name.removeprefix(ACTION_SHARE).rpartition("_")
            branches.setdefault(branch.removeprefix("_") or "action", {})[choice] = share
    rows = (f"<tr><td>{text(name)}</td><td>{_bar(of_one)}</td></tr>"
            for name, of_one in branches.items())  # fmt: skip
    return f"<table>{''.join(rows)}</table>" if branches else ""


def _bar(shares: Mapping[str, float]) -> str:
    """Returns a bar divided by `shares`, which sum to 1, with the name of each part."""
    pieces, words = [], []
    for (name, share), color in zip(shares.items(), _COLORS * len(shares), strict=False):
        pieces.append(f'<span style="width:{share:.2%};background:{color}"></span>')
        words.append(f'<span style="color:{color}">&#9632;</span> {text(name)} {share:.1%}')
    return f'<div class="bar">{"".join(pieces)}</div>{", ".join(words)}'


def videos(files: Mapping[str, pathlib.Path]) -> str:
    """Returns the films with their captions, embedded in the page."""
    figures = [
        f'<figure><video controls muted loop src="data:video/mp4;base64,'
        f'{base64.b64encode(file.read_bytes()).decode()}"></video>'
        f"<figcaption>{text(caption)}</figcaption></figure>"
        for caption, file in files.items()
    ]
    return f'<div class="grid">{"".join(figures)}</div>'


def details(summary: str, value: Any) -> str:
    """Returns `value` as a Python literal in a section that a click opens."""
    lines = text(pprint.pformat(value, width=100, sort_dicts=False))
    return f"<details><summary>{text(summary)}</summary><pre>{lines}</pre></details>"
