"""Runs benchmark programs one at a time, pinned, with a deadline, and collects their results."""

import ctypes
import datetime
import json
import math
import os
import pathlib
import signal
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import psutil

from benchmarks.measurements import REPEAT, Case

PROJECT = pathlib.Path(__file__).parents[1]
STOP_TIMEOUT_SECS = 200.0  # because a training run saves before it ends
PR_SET_CHILD_SUBREAPER = 36
PROXIES = {f"{scheme}_proxy" for scheme in ("http", "https", "all", "grpc")}

Record = dict[str, Any]
RunProgram = Callable[[Sequence[str], int, float], list[Record]]  # command, cores, deadline


class ProgramError(Exception):
    """A program failed or missed its deadline."""


def schedule(contestants: Iterable[str], repeats: Iterable[int]) -> list[tuple[int, str]]:
    """Returns (repeat, contestant) in turns: each contestant once, then each again.

    A disturbance that lasts minutes then affects all contestants.
    """
    contestants = list(contestants)
    return [(repeat, name) for repeat in repeats for name in contestants]


def measure(
    name: str,
    cases: Iterable[Case],
    repeats: Sequence[int],
    run_program: RunProgram,
    done: Iterable[Record] = (),
) -> Iterator[Record]:
    """Yields the record of each value; a failed program's record has the key `error`.

    Skips runs with records in `done`.
    """
    done_runs = set(map(_run, done))
    for case in cases:
        for repeat, contestant in schedule(case.commands, repeats):
            origin = {
                "name": name, "contestant": contestant, "cores": case.cores,
                "environment": case.environment, "repeat": repeat,
            }  # fmt: skip
            if _run(origin) in done_runs:
                continue
            argv = [part.replace(REPEAT, str(repeat)) for part in case.commands[contestant]]
            try:
                results = run_program(argv, case.cores, case.deadline_secs)
            except ProgramError as error:
                results = [{"metric": None, "value": None, "unit": None, "error": str(error)}]
            for result in results:
                yield origin | result | _circumstances()


def run_pinned(command: Sequence[str], num_cores: int, deadline_secs: float) -> list[Record]:
    """Runs a program on the first cores that this process may use; returns its output lines.

    The program leads its own process group; none of its processes outlives this call.

    Raises:
      ProgramError: If it fails, prints nothing or takes longer than `deadline_secs`.
    """
    cpus = sorted(os.sched_getaffinity(0))[:num_cores]
    if len(cpus) < num_cores:
        raise ProgramError(f"needs {num_cores} cores, this job has {len(cpus)}")
    pinned = ["setpriv", "--pdeathsig", "TERM", "taskset", "-c", ",".join(map(str, cpus)), *command]
    others = set(psutil.Process().children(recursive=True))
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            pinned, cwd=PROJECT, env=_environ(num_cores), stdin=subprocess.DEVNULL,
            stdout=output, stderr=errors, start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(deadline_secs)
        except subprocess.TimeoutExpired as error:
            raise ProgramError(f"did not end within {deadline_secs:g} s") from error
        finally:
            _end(process, others)
        output.seek(0)
        errors.seek(0)
        records = list(json_lines(output))
        if code != 0 or not records:
            raise ProgramError(f"exit code {code}: {errors.read()[-1500:].strip()}")
        return records


def json_lines(lines: Iterable[str]) -> Iterator[Record]:
    """Yields the lines that are JSON objects, because simulators print other lines."""
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def adopt_orphans() -> None:
    """Makes this process the subreaper of its descendants, so that orphans can be found."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def replace_records(
    path: pathlib.Path, records: Iterable[Mapping[str, Any]], contestants: Collection[str] = ()
) -> None:
    """Adds `records` to the lines of `path`, atomically.

    They replace records of the same cases, except those of earlier repeats and, if `contestants`
    are given, those of other contestants.
    """
    records = list(records)
    first_repeat: dict[tuple, int] = {}
    for record in records:
        case = _case(record)
        first_repeat[case] = min(record["repeat"], first_repeat.get(case, record["repeat"]))
    kept = [
        record
        for record in read_records(path)
        if record["repeat"] < first_repeat.get(_case(record), math.inf)
        or (contestants and record["contestant"] not in contestants)
    ]
    text = "".join(json.dumps(record) + "\n" for record in [*kept, *records])
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(text)
    os.replace(temporary, path)


def succeeded(
    records: Iterable[Record], name: str, cases: Iterable[Case], repeats: Sequence[int]
) -> list[Record]:
    """Returns the `records` with values of the runs that `measure` would do."""
    runs = {
        (name, case.environment, case.cores, repeat, contestant)
        for case in cases
        for repeat, contestant in schedule(case.commands, repeats)
    }
    return [record for record in records if "error" not in record and _run(record) in runs]


def _run(record: Mapping[str, Any]) -> tuple:
    return *_case(record), record["repeat"], record["contestant"]


def _case(record: Mapping[str, Any]) -> tuple:
    return record["name"], record["environment"], record["cores"]


def read_records(path: pathlib.Path) -> list[Record]:
    """Returns the records of a file; none if it does not exist."""
    return list(json_lines(path.read_text().splitlines())) if path.exists() else []


def _environ(num_cores: int) -> dict[str, str]:
    environ = {name: v for name, v in os.environ.items() if name.lower() not in PROXIES}
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC")  # NPROC: XLA
    return environ | {variable: str(num_cores) for variable in threads} | {
        "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONUNBUFFERED": "1",
    }  # fmt: skip


def _end(process: subprocess.Popen, others: set[psutil.Process]) -> None:
    """Ends the program, if it runs, and its remaining processes; `others` belong to others."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_SECS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    left = [child for child in psutil.Process().children(recursive=True) if child not in others]
    for child in left:
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(left, timeout=10)


def _circumstances() -> Record:
    now = datetime.datetime.now(datetime.timezone.utc)
    return {"cpu_model": _cpu_model(), "time": now.isoformat(timespec="seconds")}


def _cpu_model() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"
