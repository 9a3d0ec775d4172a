"""The status reports of running programs: the only definition of their fields.

A program replaces `status/<program>.json` about once a second. The status line, the profile, the
other workers and the tests read it, maybe on another host: `written_at` is by the clock of the
program's host, so a reader takes a program for alive while its report changes. A field that the
status line shows by itself is one line here: see `counted`, `note` and `fact`.
"""

import dataclasses
import enum
import re
import types
import typing
from typing import Any

from tfagents_system.core.state.files import read_json
from tfagents_system.core.state.paths import ExperimentPaths

LARGEST_NUMBER = 1e100  # arithmetic fails with larger numbers
INTERVENTIONS = "interventions"  # in WorkerReport.numbers: the share of env steps with one


class Phase(str, enum.Enum):
    """Activity of a program."""

    STARTING = "starting"
    SERVING = "serving"
    RANDOM_FILL = "random fill"
    COLLECTING = "collecting"
    EVALUATING = "evaluating"
    WAITING_FOR_LEARNER = "waiting for the learner"
    PAUSED = "paused"  # by sac pause
    PARKED = "parked"  # its environments failed too often; the other workers continue
    WAITING_FOR_DATA = "waiting for data"
    COMPILING = "compiling the train step"
    TRAINING = "training"
    SAVING = "saving"
    MIRRORING = "mirroring"
    DIVERGED = "diverged"
    STOPPED = "stopped"
    FINISHED = "finished"

    def __str__(self) -> str:
        return self.value


class ReportError(ValueError):
    """A report is damaged, or has fields of another version."""


def counted(shown_name: str) -> Any:
    """Returns a counter field; the status line shows the sum over programs if it is not 0."""
    return dataclasses.field(default=0, metadata={"counted": shown_name})


def note(shown: str = "{text}") -> Any:
    """Returns a field with a text or None; the status line begins with the first text there is.

    `shown` is the format of the status line, with `{text}` and `{program}`.
    """
    return dataclasses.field(default=None, metadata={"note": shown})


def fact(shown: str) -> Any:
    """Returns a field like `note` for a fact that holds for the whole run; it is shown once."""
    return dataclasses.field(default=None, metadata={"fact": shown})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """The fields that every program reports."""

    program: str  # learner, replay, worker_<k>, evaluator_<k>
    host: str
    pid: int  # on `host`
    written_at: float  # unix time, by the clock of `host`
    sequence: int  # reports of this process before this one
    phase: Phase
    phase_secs: dict[str, float]  # time in each part of the program's loop since its start
    cpus: str  # CPUs that it may use: "0-3"
    memory_mb: float  # resident memory, including libraries that it shares with other programs
    restarts: int = 0  # by supervise, since the start of the program's share
    failure: str | None = note("{program}: {text}")  # of user code, at the last start or lately
    failed_reports: int = counted("failed reports")  # of this process


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearnerReport(Report):
    """Progress of training."""

    train_step: int
    total_train_steps: int
    iteration: int
    num_iter: int
    train_steps_per_sec: float
    secs_left: float | None = None  # from the rate of the last minutes
    graph_traces: int  # of the compiled loop
    arithmetic: str  # of the matrix products of train steps: float32, bfloat16 or int16
    reward_signals: list[str] = dataclasses.field(default_factory=list)  # their names
    offline: str | None = fact("trains offline on {text}")  # its data, and what that means
    lessons: str | None = None  # of the curriculum: "mass 2 of 3, gap 1 of 4 (narrow)"
    waits_for: str | None = None  # the source of data that a train step waits for too long
    arithmetic_change: str | None = note("ARITHMETIC CHANGED: {text}")  # since the checkpoint
    not_saved: str | None = note("NOT SAVED for {text}")  # for how long, and why
    not_exported: str | None = note("{text}")  # why the policy was not
    removed_items: int = counted("items removed")  # of the replay buffer
    begins_anew: str | None = note("BEGINS ANEW: {text}")  # although there was an earlier start


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The share of a worker or evaluator in an evaluation."""

    iteration: int
    returns: list[float]
    successes: int | None = None  # of these episodes; None if none has reported success or failure


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkerReport(Report):
    """Work of a worker or evaluator. Counters start with the process."""

    env_steps: int  # since the run began
    env_steps_per_sec: float
    last_return: float | None
    eval: Evaluation | None  # the newest
    curriculum: dict[str, float]  # current values
    policy_age_secs: float | None = None  # since the newest policy arrived
    env_failures: int = counted("env failures")
    rejected_steps: int = counted("rejected steps")
    items_sent_again: int = counted("items recovered")
    unprotected_steps: int = counted("not in a journal")
    damaged_steps: int = counted("damaged in a journal")
    short_episodes: int = counted("short episodes left out")  # would need padding
    obstacle: str | None = fact("workers act in TensorFlow: {text}")
    numbers: dict[str, float] = dataclasses.field(default_factory=dict)  # of the newest episode
    remark: str | None = note("{text} (see stdout/{program}.log)")  # on the environment
    suspicion: str | None = note("TIME LIMIT TAKEN FOR A TERMINATION? See stdout/{program}.log")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReplayReport(Report):
    """Content of the replay buffer, in transitions."""

    transitions: int
    capacity: int
    fill_target: int  # training begins at this many


@dataclasses.dataclass(frozen=True, kw_only=True)
class MirrorReport(Report):
    """Work of a program that mirrors records to a tracker."""

    records: int  # mirrored, over all starts of the run
    problem: str | None = note("{program} IS BEHIND: {text}")


_KINDS = {
    re.compile("learner"): LearnerReport,
    re.compile("replay"): ReplayReport,
    re.compile("(worker|evaluator)_(0|[1-9][0-9]{0,5})"): WorkerReport,
    re.compile("mirror-(wandb|mlflow)"): MirrorReport,
}


def report_kind(program: str) -> type[Report] | None:
    """Returns the class of the reports of `program`; None if no program has this name."""
    return next((kind for names, kind in _KINDS.items() if names.fullmatch(program)), None)


def reporting_programs(paths: ExperimentPaths) -> list[str]:
    """Returns the names of the programs that have reported.

    Ignores files that others put there, such as copies of a sync client.
    """
    names = (path.stem for path in paths.statuses.glob("*.json"))
    return sorted(name for name in names if report_kind(name))


def read_report(paths: ExperimentPaths, program: str) -> Any:
    """Returns the last report of `program`, a `report_kind(program)`; None if there is none yet.

    Raises:
      ReportError: If it is damaged, or a field is missing, unknown or of a wrong type.
    """
    path, kind = paths.status(program), report_kind(program)
    try:
        value = read_json(path)
    except (OSError, ValueError) as error:
        raise ReportError(f"{path.name}: {error}") from None
    if value is None:
        return None
    if kind is None:
        raise ReportError(f"{path.name}: no program has this name")
    report = _decode(kind, value, path.name)
    if report.program != program:
        raise ReportError(f"{path.name} is of {report.program!r}")
    return report


def report_or_none(paths: ExperimentPaths, program: str) -> Any:
    """Returns `read_report(...)`, or None for a damaged report, too: the next one replaces it."""
    try:
        return read_report(paths, program)
    except ReportError:
        return None


def read_phase_secs(paths: ExperimentPaths) -> dict[str, dict[str, float]]:
    """Returns the seconds of each phase by program, without programs that have no phases."""
    found = {}
    for program in reporting_programs(paths):
        report = report_or_none(paths, program)
        if report is not None and report.phase_secs:
            found[program] = report.phase_secs
    return found


def _decode(kind: Any, value: Any, where: str) -> Any:
    """Converts `value` from JSON to `kind`; `where` names it in the message."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:  # T | None
        return None if value is None else _decode(parts[0], value, where)
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        hints = typing.get_type_hints(kind)
        if wrong := hints.keys() ^ value.keys():
            problems = [f"{n} is {'missing' if n in hints else 'unknown'}" for n in sorted(wrong)]
            raise ReportError(f"{where}: {', '.join(problems)}")
        return kind(**{n: _decode(hint, value[n], f"{where}: {n}") for n, hint in hints.items()})
    if origin is dict and isinstance(value, dict):
        return {key: _decode(parts[1], item, f"{where}[{key}]") for key, item in value.items()}
    if origin is list and isinstance(value, list):
        return [_decode(parts[0], item, f"{where}[{index}]") for index, item in enumerate(value)]
    if kind is Phase and value in [phase.value for phase in Phase]:
        return Phase(value)
    allowed = (int, float) if kind is float else kind
    if kind in (int, float, str) and isinstance(value, allowed) and not isinstance(value, bool):
        if isinstance(value, str) or abs(value) <= LARGEST_NUMBER:  # not NaN
            return value
    raise ReportError(f"{where} is {value!r}, no {getattr(kind, '__name__', kind)}")
