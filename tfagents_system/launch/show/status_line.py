"""Formats the status line of a run from its programs' last reports. Pure."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tfagents_system.core.display import printable
from tfagents_system.core.meters import format_duration, mean_of
from tfagents_system.core.state.disk import shortage
from tfagents_system.core.state.reports import (
    INTERVENTIONS,
    Evaluation,
    LearnerReport,
    Phase,
    ReplayReport,
    Report,
    WorkerReport,
)
from tfagents_system.launch.show.parts import Part, Rank, fitted, trouble

NOT_RESPONDING_SECS = 30.0
OLD_POLICY_SECS = 60.0
ENDED = (Phase.FINISHED, Phase.STOPPED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The last reports of all programs of a run, and the state of its disk."""

    reports: Mapping[str, Report | None]  # by program; None until it has reported
    unknown: Mapping[str, str] = dataclasses.field(default_factory=dict)  # why it cannot be read
    silent_secs: Mapping[str, float] = dataclasses.field(default_factory=dict)  # since a report
    is_running: bool = True
    paused: Sequence[str] = ()  # parts of core/state/pause.py
    edited: Sequence[str] = ()  # edited files of the experiment, since the run's start
    free_bytes: int
    checkpoint_bytes: int  # that the next checkpoint needs

    @property
    def learner(self) -> LearnerReport | None:
        """The learner's report; None until it has reported."""
        return next((r for r in self.reports.values() if isinstance(r, LearnerReport)), None)

    @property
    def replay(self) -> ReplayReport | None:
        """The replay server's report; None until it has reported."""
        return next((r for r in self.reports.values() if isinstance(r, ReplayReport)), None)

    @property
    def workers(self) -> list[WorkerReport]:
        """Reports of the workers that have reported."""
        return [report for report in self._collectors if report.program.startswith("worker_")]

    @property
    def evaluations(self) -> list[Evaluation]:
        """The newest shares of workers and evaluators in evaluations."""
        return [report.eval for report in self._collectors if report.eval]

    @property
    def _collectors(self) -> list[WorkerReport]:
        return [report for report in self.reports.values() if isinstance(report, WorkerReport)]


def status_line(snapshot: Snapshot, width: int | None = None) -> str:
    """Returns the line that describes `snapshot`; without rates if the run has ended.

    It has at most `width` characters, the most important parts first; None: no limit.
    """
    learner = snapshot.learner
    parts = [trouble(text) for text in _troubles(snapshot)]
    if snapshot.edited and snapshot.is_running:
        files = " and ".join(_few(snapshot.edited))
        parts.append(Part(Rank.EDITED, f"{files} edited: applies at the next start"))
    if "learner" in snapshot.unknown:
        parts += _collecting(snapshot)
    elif learner is None or learner.phase == Phase.STARTING:
        parts += _starting(snapshot)
    elif _is_filling(snapshot, learner):
        parts += _random_fill(snapshot)
    else:
        parts += _training(snapshot, learner)
    parts += [Part(Rank.COUNTS, text) for text in _counts(snapshot.reports.values())]
    parts += [Part(Rank.HOSTS, text) for text in _hosts(snapshot)]
    if restarts := sum(report.restarts for report in snapshot.reports.values() if report):
        parts.append(Part(Rank.COUNTS, f"restarts {restarts}"))
    return fitted(parts, width)


def facts(snapshot: Snapshot) -> list[str]:
    """Returns the facts that hold for the whole run, which are to be shown once."""
    return [printable(text) for text in _texts(snapshot.reports.values(), "fact")]


def _few(files: Sequence[str]) -> list[str]:
    """Returns the names; of more than three, the first two and how many others there are."""
    return [*files[:2], f"{len(files) - 2} more files"] if len(files) > 3 else list(files)


def _troubles(snapshot: Snapshot) -> list[str]:
    found: list[str] = []
    if snapshot.paused:
        found.append(f"PAUSED: {' and '.join(snapshot.paused)} (sac resume ends it)")
    if snapshot.is_running:
        found += _disk_full(snapshot) + _not_responding(snapshot) + _parked(snapshot)
        found += _old_policies(snapshot)
    found += _texts(snapshot.reports.values(), "note")
    return found + [f"unknown: {name} ({why})" for name, why in snapshot.unknown.items()]


def _starting(snapshot: Snapshot) -> list[Part]:
    if not snapshot.is_running:
        return [Part(Rank.PROGRESS, "the learner has not reported")]
    silent = [
        name
        for name, report in snapshot.reports.items()
        if name not in snapshot.unknown and (report is None or report.phase == Phase.STARTING)
    ]
    text = f"starting {', '.join(silent)}" if silent else "starting"
    return [Part(Rank.PROGRESS, text, f"starting {len(silent)} programs")]


def _is_filling(snapshot: Snapshot, learner: LearnerReport) -> bool:
    replay = snapshot.replay
    is_short = replay is None or replay.transitions < replay.fill_target
    return learner.phase == Phase.WAITING_FOR_DATA and is_short


def _random_fill(snapshot: Snapshot) -> list[Part]:
    replay = snapshot.replay
    text, short = "filling the replay buffer", ""
    if replay is not None and replay.fill_target:
        stored, target = replay.transitions, replay.fill_target
        done = f"({min(1.0, stored / target):.0%})"
        text += f" {stored:,} of {target:,} {done}"
        short = f"filling {stored:,}/{target:,} {done}"
    return [Part(Rank.PROGRESS, text, short), *_collecting(snapshot)]


def _training(snapshot: Snapshot, learner: LearnerReport) -> list[Part]:
    step, total = learner.train_step, learner.total_train_steps
    iteration, num_iter = f"{learner.iteration:,}", f"{learner.num_iter:,}"
    done = f"({step / total:.0%})" if total else "(-)"
    has_ended = learner.phase in (Phase.FINISHED, Phase.STOPPED, Phase.DIVERGED)
    is_shown = has_ended or (snapshot.is_running and learner.phase != Phase.TRAINING)
    parts = [Part(Rank.PROGRESS, _activity(learner))] if is_shown else []
    parts.append(Part(Rank.PROGRESS, f"iteration {iteration} of {num_iter} {done}",
                      f"{iteration}/{num_iter} {done}"))  # fmt: skip
    rate = _count_and_rate(snapshot, "train steps", step, learner.train_steps_per_sec)
    in_arithmetic = f"{rate} in {learner.arithmetic}" if snapshot.is_running else rate
    parts.append(Part(Rank.TRAIN_STEPS, in_arithmetic, rate))
    parts += _collecting(snapshot) + _evaluation(snapshot)
    if learner.lessons:
        parts.append(Part(Rank.COUNTS, f"lesson {learner.lessons}"))
    if snapshot.is_running and learner.secs_left:
        parts.append(Part(Rank.TIME_LEFT, f"{format_duration(learner.secs_left)} left"))
    return parts


def _activity(learner: LearnerReport) -> str:
    """Returns the phase; for compiling, during which all wait, also how long it has lasted."""
    secs = learner.phase_secs.get(str(Phase.COMPILING), 0.0)
    lasts = f", {format_duration(secs)}" if learner.phase == Phase.COMPILING else ""
    return f"{learner.phase}{lasts}"


def _count_and_rate(snapshot: Snapshot, name: str, count: int, rate: float) -> str:
    return f"{name} {count:,}, {rate:,.0f}/s" if snapshot.is_running else f"{name} {count:,}"


def _collecting(snapshot: Snapshot) -> list[Part]:
    workers = snapshot.workers
    if snapshot.learner and snapshot.learner.offline:
        return [Part(Rank.ENV_STEPS, "offline")]
    if not workers:
        return []
    env_steps = sum(worker.env_steps for worker in workers)
    rate = sum(w.env_steps_per_sec for w in workers if _is_collecting(snapshot, w))
    parts = [Part(Rank.ENV_STEPS, _count_and_rate(snapshot, "env steps", env_steps, rate))]
    returns = [worker.last_return for worker in workers if worker.last_return is not None]
    if returns:
        parts.append(Part(Rank.RETURN, f"return {mean_of(returns):,.1f}"))
    shares = [w.numbers[INTERVENTIONS] for w in workers if INTERVENTIONS in w.numbers]
    if shares:
        parts.append(Part(Rank.RETURN, f"interventions {mean_of(shares):.0%}"))
    return parts


def _is_collecting(snapshot: Snapshot, worker: WorkerReport) -> bool:
    """Returns whether a worker still collects: workers may leave, and their last reports stay."""
    is_silent = snapshot.silent_secs.get(worker.program, 0.0) > NOT_RESPONDING_SECS
    return not is_silent and worker.phase not in ENDED


def _evaluation(snapshot: Snapshot) -> list[Part]:
    evaluations = snapshot.evaluations
    if not evaluations:
        return []
    newest = max(evaluation.iteration for evaluation in evaluations)
    shares = [evaluation for evaluation in evaluations if evaluation.iteration == newest]
    returns = [r for share in shares for r in share.returns]
    if not returns:
        return []
    mean = f"{mean_of(returns):,.1f}"
    text, short = f"evaluation {mean} (iteration {newest:,})", f"eval {mean}"
    parts = [Part(Rank.EVALUATION, text, short)]
    successes = [share.successes for share in shares if share.successes is not None]
    if successes:
        parts.append(Part(Rank.SUCCESS, f"success {sum(successes) / len(returns):.0%}"))
    return parts


def _disk_full(snapshot: Snapshot) -> list[str]:
    if snapshot.free_bytes >= snapshot.checkpoint_bytes:
        return []
    return [shortage("checkpoint", snapshot.checkpoint_bytes, snapshot.free_bytes)]


def _not_responding(snapshot: Snapshot) -> list[str]:
    silent = [
        f"{name} ({format_duration(secs)})"
        for name, secs in snapshot.silent_secs.items()
        if secs > NOT_RESPONDING_SECS and _should_report(snapshot.reports.get(name))
    ]
    return [f"NOT RESPONDING: {', '.join(silent)}"] if silent else []


def _should_report(report: Report | None) -> bool:
    return report is not None and report.phase not in ENDED


def _hosts(snapshot: Snapshot) -> list[str]:
    """Returns the programs of each host, if there are several hosts."""
    programs: dict[str, list[str]] = {}
    for report in snapshot.reports.values():
        if report is not None and report.phase not in ENDED:
            programs.setdefault(report.host, []).append(report.program)
    if len(programs) < 2:
        return []
    return [f"{host}: {', '.join(_ranges(names))}" for host, names in sorted(programs.items())]


def _ranges(names: Iterable[str]) -> list[str]:
    """Shortens consecutively numbered names: `worker_0 to worker_3`."""
    ranges: list[list[str]] = []
    for kind, number in sorted((name.partition("_")[::2] for name in names), key=_by_number):
        last_kind, last_number = ranges[-1][-1].partition("_")[::2] if ranges else ("", "")
        if number and kind == last_kind and int(number) == int(last_number) + 1:
            ranges[-1].append(f"{kind}_{number}")
        else:
            ranges.append([f"{kind}_{number}" if number else kind])
    return [f"{first} to {rest[-1]}" if rest else first for first, *rest in ranges]


def _by_number(name: tuple[str, ...]) -> tuple[str, int]:
    kind, number = name
    return kind, int(number or 0)


def _parked(snapshot: Snapshot) -> list[str]:
    names = [name for name, r in snapshot.reports.items() if r and r.phase == Phase.PARKED]
    return [f"PARKED: {', '.join(names)}"] if names else []


def _old_policies(snapshot: Snapshot) -> list[str]:
    """Returns the workers with an old policy although the learner publishes new ones."""
    if snapshot.learner is None or snapshot.learner.phase != Phase.TRAINING:
        return []
    ages = {w.program: w.policy_age_secs or 0.0 for w in snapshot.workers
            if _is_collecting(snapshot, w)}  # fmt: skip
    old = [
        f"{name} ({format_duration(age)})" for name, age in ages.items() if age > OLD_POLICY_SECS
    ]
    return [f"OLD POLICY: {', '.join(old)}"] if old else []


def _counts(reports: Iterable[Report | None]) -> list[str]:
    """Returns the `reports.counted` fields, summed over programs."""
    sums: dict[str, int] = {}
    for report, field in _fields(reports):
        if name := field.metadata.get("counted"):
            sums[name] = sums.get(name, 0) + getattr(report, field.name)
    return [f"{name} {count:,}" for name, count in sums.items() if count]


def _texts(reports: Iterable[Report | None], kind: str) -> list[str]:
    """Returns the texts of the fields by `reports.note` or `fact`, the first of each field."""
    texts: dict[str, str] = {}
    for report, field in _fields(reports):
        if (shown := field.metadata.get(kind)) and (text := getattr(report, field.name)):
            texts.setdefault(field.name, shown.format(text=text, program=report.program))
    return list(texts.values())


def _fields(reports: Iterable[Report | None]) -> Iterator[tuple[Report, dataclasses.Field[Any]]]:
    for report in reports:
        if report is not None:
            for field in dataclasses.fields(report):
                yield report, field
