"""Writes the status reports of a program."""

import dataclasses
import json
import os
import platform
import time
from collections.abc import Callable
from typing import Any

from tfagents_system.core.process.cpus import available_cpus, cpu_list
from tfagents_system.core.process.memory import resident_mb
from tfagents_system.core.process.reporting import OnlyReports, num_failed
from tfagents_system.core.state.disk import SpaceGuard, is_disk_full
from tfagents_system.core.state.files import overwrite, write_json_atomically
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.reports import Phase, report_kind

RESTARTS_VARIABLE = "SERVICE_RESTARTS"  # set by launch/local/restart_budget.py


class StatusReporter:
    """Replaces the report of a program at most once every `period_secs`.

    On a full disk, the old report is overwritten in place, so that the status line stays current.
    """

    def __init__(
        self,
        paths: ExperimentPaths,
        program: str,
        period_secs: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._path = paths.status(program)
        self._program = program
        kind = report_kind(program)
        assert kind is not None
        self._kind = kind
        self._guard = SpaceGuard("status", self._path.parent)
        self._period_secs = period_secs
        self._clock = clock
        self._reported_at = float("-inf")
        self._sequence = 0
        self._newest: dict[str, Any] | None = None  # the last fields, in case new ones fail

    def report(self, phase: Phase, make_fields: Callable[[], dict[str, Any]]) -> None:
        """Writes the phase and `make_fields()`, which is only called if a report is due.

        `make_fields` returns `phase_secs`, and the fields of this kind of report.
        """
        if self._clock() - self._reported_at >= self._period_secs:
            self._reported_at = self._clock()  # also for a failed attempt, because steps continue
            with OnlyReports("fields of the status"):
                self._newest = make_fields()
            if self._newest is not None:
                self.report_now(phase, self._newest)

    def report_now(self, phase: Phase, fields: dict[str, Any]) -> None:
        """Writes a report now."""
        report = dataclasses.asdict(
            self._kind(
                program=self._program,
                host=platform.node(),
                pid=os.getpid(),
                written_at=time.time(),
                sequence=self._sequence,
                restarts=int(os.environ.get(RESTARTS_VARIABLE, "0")),
                phase=phase,
                cpus=cpu_list(available_cpus()),
                memory_mb=resident_mb(),
                failed_reports=num_failed(),
                **fields,
            )
        )
        self._sequence += 1
        self._reported_at = self._clock()
        with OnlyReports("status"), self._guard:
            self._path.parent.mkdir(exist_ok=True)
            try:
                write_json_atomically(self._path, report)
            except OSError as error:
                if not is_disk_full(error):
                    raise
                overwrite(self._path, json.dumps(report).encode())
