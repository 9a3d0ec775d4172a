"""Decides whether and when a program of a run starts again, and becomes that program.

Usage: python -m tfagents_system.launch.local.restart_budget SERVICE_DIR LOG COMMAND [ARGUMENT...]

Every service's run script ends here, at the first start and after each end of the program. Reads
`exit_code`: 1 until core/programs takes over, then blank until the program ends by itself; a blank
means that a signal killed it. Writes its process id, which will be the program's, to `pid`, appends
each start to `starts`, and writes `failure` when it gives up. A full disk neither prevents a start
nor counts as a failure. Processes that the ended program has left, such as simulators, are ended
here.

These files, and the monotonic times in `starts`, are only valid on this host, whose supervise and
train_script.sh read them. core/state/reports.py has what readers on other hosts may use.
"""

import contextlib
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Sequence

from tfagents_system.core.display import printable, without_secrets
from tfagents_system.core.errors import (
    EXIT_CONFIG,
    EXIT_DIVERGED,
    EXIT_FINISHED,
    EXIT_NOT_BEGUN,
    EXIT_STOPPED,
    EXIT_STORAGE,
    EXIT_SUPERSEDED,
)
from tfagents_system.core.process.process_start import end_imports
from tfagents_system.core.process.processes import Process, began, descendants, end, leftovers
from tfagents_system.core.state.disk import SpaceGuard, is_disk_full, keep_printing_on_full_disk
from tfagents_system.core.state.files import append_whole, overwrite, write_text_atomically
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.running import unproven_bindings
from tfagents_system.core.state.status_reporter import RESTARTS_VARIABLE
from tfagents_system.launch.local.supervision import is_supervised

MARK = "=== start "  # begins the log line of each start
MAX_FAILURE_LINES = 40
EXIT_CODE_AT_START = b"1\n\n\n"  # so that the program can overwrite it on a full disk
CHAINED = ("The above exception was", "During handling of")  # lines between chained tracebacks
ENDED = (EXIT_FINISHED, EXIT_SUPERSEDED)  # ended by itself and for good; not a failure
FATAL = {
    EXIT_CONFIG: "cannot run with this configuration",
    EXIT_DIVERGED: "stopped because training diverged",
    EXIT_STORAGE: "cannot read or save on this disk",
}  # exit codes after which another start would end in the same way


@dataclasses.dataclass(frozen=True)
class RestartBudget:
    """Limits how often a program may fail right after its start."""

    max_quick_failures: float = 5  # in a row
    kill_weight: float = 0.1  # of a failure: a kill is seldom the program's own fault
    quick_secs: float = 60.0  # a program that has lived this long counts as healthy

    def quick_failures(self, before: float, exit_code: int | None, lived_secs: float) -> float:
        """Number of quick failures in a row after one more end.

        Args:
          before: Their number when the ended run began.
          exit_code: None if a signal killed it.
          lived_secs: From its start to its end.
        """
        if exit_code == EXIT_NOT_BEGUN:
            return before + 1  # however long a constructor takes to fail
        if exit_code == EXIT_STOPPED or lived_secs >= self.quick_secs:
            return 0
        return before + (self.kill_weight if exit_code is None else 1)

    def delay_secs(self, exit_code: int | None, quick_failures: float) -> float | None:
        """Seconds before the next start: 0, 1, 2, 4...; None: ended, fatal, or too often."""
        is_last = exit_code in ENDED or exit_code in FATAL
        if is_last or quick_failures >= self.max_quick_failures:
            return None
        return 0.0 if quick_failures < 2 else 2.0 ** (int(quick_failures) - 2)


def read_starts(service: pathlib.Path) -> list[tuple[float, float]]:
    """Returns (monotonic time, earlier quick failures in a row) of each start, oldest first.

    The monotonic clock is never set, and the same for all processes until the machine restarts;
    every start of a run writes `service/` again, so it does not outlive that.
    """
    try:
        lines = (service / "starts").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [(float(began), float(failures)) for began, failures in map(str.split, lines)]


def _read_exit_code(service: pathlib.Path) -> int | None:
    try:
        text = (service / "exit_code").read_text().strip()
    except FileNotFoundError:
        return None
    return int(text) if text else None


def _last_words(log: pathlib.Path, exit_code: int | None) -> list[str]:
    """Returns the last traceback, or the message of a fatal end, since the last start."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 64_000))
        text = file.read().decode(errors="replace")
    lines = text.rpartition(MARK)[2].splitlines()[1:]
    begin = r"\w+\.py: " if exit_code in FATAL else r"Traceback \(most recent call last\):"
    begins = [index for index, line in enumerate(lines) if re.match(begin, line)]
    while len(begins) > 1 and lines[begins[-1] - 2].startswith(CHAINED):
        begins.pop()  # its cause tells more
    return lines[begins[-1] if begins else 0 :][-MAX_FAILURE_LINES:]


def _describe_failure(
    service: pathlib.Path, log: pathlib.Path, exit_code: int | None, num_restarts: int
) -> str:
    if exit_code in FATAL:
        header = f"{service.name} {FATAL[exit_code]} (exit code {exit_code})"
    else:
        reason = "killed by a signal" if exit_code is None else f"exit code {exit_code}"
        header = f"{service.name} failed again after {num_restarts} restarts ({reason})"
    words = _last_words(log, exit_code)
    if exit_code == EXIT_CONFIG and (new := unproven_bindings(ExperimentPaths(log.parent.parent))):
        words.append(f"New in this start, and not kept: {'; '.join(new)}. Resume without that.")
    shown = [f"  {printable(without_secrets(line))}" for line in words]
    return "\n".join([f"{header}. Its log is {log}", *shown]) + "\n"


def _write_failure(service: pathlib.Path, failure: str) -> None:
    try:
        write_text_atomically(service / "failure", failure)
    except OSError as error:
        if not is_disk_full(error):
            raise
        (service / "failure").touch()  # takes no space; train_script.sh knows what it means


def _end_service(service: pathlib.Path) -> None:
    # If supervise sees this process end first, it starts it again, which then ends here again.
    subprocess.run(["svc", "-x", str(service)], check=False)


def _record_process(service: pathlib.Path) -> None:
    """Tells train_script.sh that the program starts; see `pid` in service_dirs.py."""
    pid = os.getpid()
    try:
        overwrite(service / "pid", f"{pid} {began(pid)}\n".encode())
    except OSError as error:
        if not is_disk_full(error):
            raise
        (service / "pid").unlink(missing_ok=True)  # better unknown than an earlier process's


def _end_leftovers() -> None:
    """Ends processes of the ended program; its orphans are children of supervise."""
    supervise = os.getppid()
    comm = pathlib.Path(f"/proc/{supervise}/comm")
    with contextlib.suppress(OSError):
        if comm.read_text() != "supervise\n":  # it was just killed
            supervise = os.getpid()

    def find() -> set[Process]:
        return {p for p in leftovers() | descendants(supervise) if p.pid != os.getpid()}

    if count := end(find):
        print(f"Ended {count} processes that the last start had left behind.", flush=True)


def main(argv: Sequence[str]) -> None:
    """Becomes the program, now or after a delay, or tells supervise to end."""
    if len(argv) < 4 or argv[1].startswith("-"):
        print(__doc__.splitlines()[2], file=sys.stderr)
        sys.exit(EXIT_CONFIG)
    service, log, command = pathlib.Path(argv[1]), pathlib.Path(argv[2]), argv[3:]
    keep_printing_on_full_disk()
    if not is_supervised(service):  # supervise was killed before setpriv asked for a signal
        return
    _record_process(service)
    _end_leftovers()
    starts = read_starts(service)
    quick_failures = 0.0
    if starts:
        began, failures_before = starts[-1]
        exit_code = _read_exit_code(service)
        budget = RestartBudget()
        quick_failures = budget.quick_failures(failures_before, exit_code, time.monotonic() - began)
        delay = budget.delay_secs(exit_code, quick_failures)
        if delay is None:
            if exit_code not in ENDED:
                failure = _describe_failure(service, log, exit_code, len(starts) - 1)
                _write_failure(service, failure)
            _end_service(service)
            return
        time.sleep(delay)
    with SpaceGuard("record of a start", service):
        overwrite(service / "exit_code", EXIT_CODE_AT_START)
        append_whole(service / "starts", f"{time.monotonic():.3f} {quick_failures:g}\n".encode())
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    print(f"{MARK}{len(starts) + 1} of {service.name}, {now} ===", flush=True)
    os.environ[RESTARTS_VARIABLE] = str(len(starts))
    os.execvp(command[0], list(command))


if __name__ == "__main__":
    end_imports()
    main(sys.argv)
