"""Reports failed user code to the status line before its program can report itself."""

import dataclasses
import types
import typing
from typing import Any

from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.reports import Phase, Report, report_kind, report_or_none
from tfagents_system.core.state.status_reporter import StatusReporter


def report_failure(paths: ExperimentPaths, program: str, failure: str) -> None:
    """Adds `failure` to the last report of `program`, without changing its progress.

    The restarted program's next report replaces it.
    """
    kind = report_kind(program)
    if kind is None:  # a service that reports nothing, such as a relay
        return
    last = report_or_none(paths, program)
    fields = dataclasses.asdict(last) if last else _blank_fields(kind)
    common = {field.name for field in dataclasses.fields(Report)} - {"phase_secs"}
    own = {name: value for name, value in fields.items() if name not in common}
    StatusReporter(paths, program).report_now(Phase.STARTING, own | {"failure": failure})


def _blank_fields(kind: type[Report]) -> dict[str, Any]:
    """Returns the fields of a report of which nothing is known yet."""
    hints = typing.get_type_hints(kind)
    names = [f.name for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING]
    return {name: _blank(hints[name]) for name in names}


def _blank(hint: Any) -> Any:
    if hint is Phase:
        return Phase.STARTING
    is_optional = typing.get_origin(hint) is types.UnionType  # T | None
    return None if is_optional else (typing.get_origin(hint) or hint)()
