"""Draws the screen of `sac watch`."""

import collections
import pathlib
import re
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfagents_system.core.display import printable, without_secrets
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.meters import mean_of
from tfagents_system.core.state.disk import format_bytes
from tfagents_system.core.state.files import open_regular
from tfagents_system.core.state.mirror_addresses import mirror_addresses
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.reports import (
    LearnerReport,
    MirrorReport,
    Phase,
    ReplayReport,
    Report,
    WorkerReport,
)
from tfagents_system.launch.show.profile import phases_between
from tfagents_system.launch.show.status_line import (
    NOT_RESPONDING_SECS,
    Snapshot,
    facts,
    status_line,
)
from tfagents_system.records.run_history import read_evaluations

BARS = "▁▂▃▄▅▆▇█"
SPARKLINE_LENGTH = 60
WINDOW_LOOKS = 10  # window for shares of time
LOG_TAIL_BYTES = 65_536
MAX_ERRORS = 5
WAITS = 0.3  # minimum share of its time for which a program counts as waiting
WAITING_FOR_DATA, WAITING_FOR_SERVER = "waiting for data", "waiting for the server"
FIRST_FILL = "waiting for the first data"
_ERROR = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)\b.*|^Timeout \(.*", re.M)


class Dashboard:
    """Draws successive snapshots of one run; remembers earlier ones for shares of time."""

    def __init__(self, paths: ExperimentPaths):
        """Draws nothing yet."""
        self._paths = paths
        self._phases: collections.deque[Mapping[str, Mapping[str, float]]] = collections.deque(
            maxlen=WINDOW_LOOKS
        )

    def draw(self, snapshot: Snapshot) -> RenderableType:
        """Returns the screen as a renderable of rich."""
        reports = {name: report for name, report in snapshot.reports.items() if report is not None}
        self._phases.append({name: report.phase_secs for name, report in reports.items()})
        phases = phases_between(self._phases[0], self._phases[-1])
        shares = {name: _shares(secs) for name, secs in phases.items()}
        parts: list[RenderableType] = [
            Text(printable(self._paths.root.name), style="bold"),
            Text(status_line(snapshot)),
        ]
        is_offline = snapshot.learner is not None and snapshot.learner.offline
        if snapshot.is_running and not is_offline and not snapshot.paused:
            parts.append(Text(who_waits(shares)))
        parts += [Text(printable(line)) for line in self._evaluations()]
        if numbers := newest_numbers(snapshot.workers):
            parts.append(Text(printable(f"log_info     {numbers}")))
        parts += [Text(fact) for fact in facts(snapshot)]
        parts += [Text(f"mirrored to  {address}") for address in mirror_addresses(self._paths)]
        parts += [Text(error, style="red") for error in last_errors(self._paths)]
        # Last, because a terminal cuts what does not fit, and there may be hundreds.
        return Group(*parts, _programs(snapshot, shares))

    def _evaluations(self) -> list[str]:
        """Returns the line of the returns, and the line of the success rate if there is one."""
        try:
            points = read_evaluations(self._paths)
        except ConfigError as error:
            return [f"evaluations  {error}"]
        if not points:
            return ["evaluations  none yet"]
        returns = [point.mean_return for point in points]
        lines = [f"evaluations  {sparkline(returns)}  {returns[0]:,.1f} … {returns[-1]:,.1f}"]
        if rates := [p.success_rate for p in points if p.success_rate is not None]:
            lines.append(f"success      {sparkline(rates)}  {rates[0]:.0%} … {rates[-1]:.0%}")
        return lines


def newest_numbers(workers: Sequence[WorkerReport]) -> str:
    """Returns the numbers of `log_info` of the newest episodes: means over the workers."""
    found: dict[str, list[float]] = {}
    for worker in workers:
        for name, value in worker.numbers.items():
            found.setdefault(name, []).append(value)
    return ", ".join(f"{name} {mean_of(values):.4g}" for name, values in found.items())


def sparkline(values: Sequence[float], length: int = SPARKLINE_LENGTH) -> str:
    """Returns one bar for each value; averages neighbours if there are more than `length`."""
    groups = min(length, len(values))
    bounds = [round(index * len(values) / groups) for index in range(groups + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in zip(bounds, bounds[1:], strict=False)]
    low, high = min(means), max(means)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((mean - low) * scale)] for mean in means)


def who_waits(shares: Mapping[str, Mapping[str, float]]) -> str:
    """Returns a sentence on who waits for whom, and what would help.

    Args:
      shares: Share of time in each phase, by program.
    """
    if shares.get("learner", {}).get(FIRST_FILL, 0.0) >= WAITS:
        return "The replay buffer is being filled: training begins after that."
    learner = shares.get("learner", {}).get(WAITING_FOR_DATA, 0.0)
    workers = [s.get(WAITING_FOR_SERVER, 0.0) for n, s in shares.items() if n.startswith("worker_")]
    worker = sum(workers) / len(workers) if workers else 0.0
    if max(learner, worker) < WAITS:
        return "No program waits for long: collecting and learning are in balance."
    if learner > worker:
        return (f"The learner waits for data {learner:.0%} of the time: collection is the "
                "bottleneck; more workers make it faster.")  # fmt: skip
    return (f"Workers wait for the learner {worker:.0%} of the time: learning is the bottleneck; "
            "fewer workers do as well.")  # fmt: skip


def last_errors(paths: ExperimentPaths) -> list[str]:
    """Returns the last exception in the log of each program that has one, at most MAX_ERRORS."""
    errors = []
    for log in sorted((paths.root / "stdout").glob("*.log")):
        if found := _ERROR.findall(_tail(log)):
            errors.append(printable(without_secrets(f"{log.stem}: {found[-1]}")))
    return errors[:MAX_ERRORS]


def _tail(log: pathlib.Path) -> str:
    try:
        with open_regular(log) as file:
            file.seek(max(0, log.stat().st_size - LOG_TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _shares(secs: Mapping[str, float]) -> dict[str, float]:
    total = sum(secs.values())
    return {phase: value / total for phase, value in secs.items()} if total > 0 else {}


def _programs(snapshot: Snapshot, shares: Mapping[str, Mapping[str, float]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("program", "host", "CPUs", "does", "rate", "memory", "restarts", "time goes to"):
        table.add_column(column, justify="right" if column in ("rate", "memory", "restarts")
                         else "left")  # fmt: skip
    for name, report in sorted(snapshot.reports.items(), key=lambda item: _order(item[0])):
        if report is None:
            cells = [name, "", "", snapshot.unknown.get(name, Phase.STARTING.value)]
        else:
            cells = [
                name, report.host, report.cpus, _does(snapshot, report), _rate(report),
                format_bytes(round(report.memory_mb * 1e6)), str(report.restarts or ""),
                _largest(shares.get(name, {})),
            ]  # fmt: skip
        table.add_row(*(Text(printable(cell)) for cell in cells))  # no markup
    return table


def _order(program: str) -> tuple[int, str, int]:
    kind, _, number = program.partition("_")
    return (
        ("replay", "learner").index(kind) if kind in ("replay", "learner") else 2,
        kind,
        int(number or 0),
    )


def _does(snapshot: Snapshot, report: Report) -> str:
    silent = snapshot.silent_secs.get(report.program, 0.0)
    if snapshot.is_running and silent > NOT_RESPONDING_SECS:
        return f"silent for {silent:.0f} s"
    return report.phase.value


def _rate(report: Report) -> str:
    if isinstance(report, LearnerReport):
        return f"{report.train_steps_per_sec:,.0f} train steps/s"
    if isinstance(report, WorkerReport):
        return f"{report.env_steps_per_sec:,.0f} env steps/s"
    if isinstance(report, ReplayReport):
        return f"{report.transitions / max(report.capacity, 1):.0%} full"
    if isinstance(report, MirrorReport):
        return f"{report.records:,} records"
    return ""


def _largest(shares: Mapping[str, float], count: int = 2) -> str:
    ranked = sorted(shares.items(), key=lambda item: -item[1])[:count]
    return ", ".join(f"{phase} {share:.0%}" for phase, share in ranked if share >= 0.01)
