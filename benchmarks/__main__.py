"""Measures this project and its peers, and writes the report.

Example: benchmarks/run.sh learner --repeats 1

Writes benchmarks.jsonl, benchmarks.md and plots to DIR, also when it is interrupted.
"""

import dataclasses
import pathlib
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Annotated

from benchmarks import harness, report
from benchmarks.measurements import PEERS, Case, Commands, make_measurements
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.command_line import AtLeast, OneOf, run_tool

OUTPUT = pathlib.Path("docs/results")
PEERS_PYTHON = harness.PROJECT / "benchmarks" / ".venv-peers" / "bin" / "python"
NAMES = tuple(make_measurements(Commands("")))


def select_cases(
    names: Sequence[str], environment: str | None, full: bool
) -> dict[str, list[Case]]:
    """Returns the cases of the measurements `names`, or of all measurements.

    Raises:
      ConfigError: If they have no case of `environment`.
    """
    measurements = make_measurements(Commands(str(PEERS_PYTHON)), full)
    cases = {name: measurements[name] for name in names or NAMES}
    if environment is None:
        return cases
    known = sorted({case.environment for its_cases in cases.values() for case in its_cases})
    if environment not in known:
        raise ConfigError(
            f"--environment is {environment}; {', '.join(cases)} measure on {', '.join(known)}"
            f"{'.' if full else '; there are more with --full.'}"
        )
    return {
        name: [case for case in its_cases if case.environment == environment]
        for name, its_cases in cases.items()
    }


def run_measurement(
    name: str,
    cases: Sequence[Case],
    repeats: Sequence[int],
    output: pathlib.Path,
    resume: bool = False,
    contestants: Sequence[str] = (),
) -> bool:
    """Runs a measurement; returns whether all programs succeeded.

    Writes each value to benchmarks.jsonl at once, and the report at the end, also when it is
    interrupted. `resume` skips runs that already have values. If there are `contestants`, measures
    only these; the values of the others stay.
    """
    path = output / report.RECORDS
    if contestants:
        cases = [_with_contestants(case, contestants) for case in cases]
    done = harness.succeeded(harness.read_records(path), name, cases, repeats) if resume else []
    records = list(done)
    try:
        for record in harness.measure(name, cases, repeats, harness.run_pinned, done):
            print(_progress(record), file=sys.stderr, flush=True)
            records.append(record)
            harness.replace_records(path, records, contestants)
    finally:
        report.write(output)
    return not any("error" in record for record in records)


def _with_contestants(case: Case, contestants: Sequence[str]) -> Case:
    commands = {name: case.commands[name] for name in case.commands if name in contestants}
    return dataclasses.replace(case, commands=commands)


def _progress(record: harness.Record) -> str:
    where = "{name}, {environment}, {cores} cores, repeat {repeat}, {contestant}".format(**record)
    if "error" in record:
        return f"{where}: {record['error']}"
    value = report.number(record["value"], f" {record['unit']}")
    return f"{where}: {record['metric']} {value}"


def main(
    names: Annotated[tuple[str, ...], OneOf(NAMES)] = (),
    /,
    repeats: Annotated[int, AtLeast(1)] = 3,
    first_repeat: Annotated[int, AtLeast(1)] = 1,
    environment: str | None = None,
    contestant: tuple[str, ...] = (),
    output: pathlib.Path = OUTPUT,
    full: bool = False,
    resume: bool = False,
) -> int:
    """Runs measurements; returns 1 if a program failed.

    Args:
      names: Measurements: learner, collection and so on. Default: all.
      repeats: Runs of each contestant, which take turns.
      first_repeat: Start with this run; records of earlier ones stay.
      environment: Measure only on this environment.
      contestant: Measure only these; the values of the others stay.
      output: Folder of benchmarks.jsonl, benchmarks.md and the plots.
      full: Include what takes hours: 64 real workers, 1,000,000 transitions, HalfCheetah.
      resume: Skip runs that already have values in benchmarks.jsonl.
    """
    if first_repeat > repeats:
        raise ConfigError(f"--first_repeat is {first_repeat}; expected 1 to --repeats, {repeats}.")
    measurements = select_cases(names, environment, full)
    contestants = {c for cases in measurements.values() for case in cases for c in case.commands}
    if unknown := [name for name in contestant if name not in contestants]:
        raise ConfigError(
            f"--contestant is {unknown[0]}; expected one of {'; '.join(sorted(contestants))}."
        )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, frame: sys.exit(128 + received))
    if any(name.partition(" ")[0] in PEERS for name in contestant or contestants):
        setup = [str(harness.PROJECT / "benchmarks" / "setup_peers.sh")]
        if code := subprocess.run(setup).returncode:
            return code
    harness.adopt_orphans()
    output.mkdir(parents=True, exist_ok=True)
    runs = range(first_repeat, repeats + 1)
    succeeded = [
        run_measurement(name, cases, runs, output, resume, contestant)
        for name, cases in measurements.items()
    ]
    return 0 if all(succeeded) else 1


if __name__ == "__main__":
    run_tool(main, ["benchmarks/run.sh", *sys.argv[1:]])
