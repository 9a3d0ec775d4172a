"""Measures and reports. Usage: benchmarks/run.sh [OPTION...] [NAME...]; -h lists the options.

Writes benchmarks.jsonl, benchmarks.md and plots to DIR, also when it is cut short.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Sequence

from benchmarks import harness, report
from benchmarks.measurements import PEERS, Case, Commands, make_measurements

OUTPUT = pathlib.Path("docs/results")
PEERS_PYTHON = harness.PROJECT / "benchmarks" / ".venv-peers" / "bin" / "python"


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Returns the arguments; exits with 78 for wrong ones."""
    names = list(make_measurements(Commands("")))
    parser = argparse.ArgumentParser(prog="benchmarks/run.sh", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each contestant")
    parser.add_argument(
        "--first-repeat", type=int, default=1, help="begins with this run; earlier records stay"
    )
    parser.add_argument("--environment", help="measures on this environment alone")
    parser.add_argument("--output", type=pathlib.Path, default=OUTPUT, help="folder")
    parser.add_argument("--full", action="store_true", help="also what takes hours")
    parser.error = _die
    arguments = parser.parse_args(argv)
    unknown = [name for name in arguments.names if name not in names]
    if unknown:
        _die(f"no such measurement: {', '.join(unknown)}. There are: {', '.join(names)}")
    if arguments.repeats < 1:
        _die(f"--repeats is {arguments.repeats}; allowed is an integer >= 1")
    if not 1 <= arguments.first_repeat <= arguments.repeats:
        _die(f"--first-repeat is {arguments.first_repeat}; allowed is 1 to --repeats, "
             f"{arguments.repeats}")  # fmt: skip
    arguments.names = arguments.names or names
    return arguments


def select_cases(arguments: argparse.Namespace) -> dict[str, list[Case]]:
    """Returns the cases of each measurement; exits with 78 if `--environment` leaves none."""
    measurements = make_measurements(Commands(str(PEERS_PYTHON)), arguments.full)
    cases = {name: measurements[name] for name in arguments.names}
    wanted = arguments.environment
    if wanted is None:
        return cases
    known = sorted({case.environment for its_cases in cases.values() for case in its_cases})
    if wanted not in known:
        _die(f"--environment is {wanted}; {', '.join(cases)} measure on {', '.join(known)}"
             f"{'' if arguments.full else '; there are more with --full'}")  # fmt: skip
    return {
        name: [case for case in its_cases if case.environment == wanted]
        for name, its_cases in cases.items()
    }


def run_measurement(
    name: str, cases: Sequence[Case], repeats: Sequence[int], output: pathlib.Path
) -> bool:
    """Measures; returns whether all programs succeeded.

    Each value is in benchmarks.jsonl as soon as it is there. The report follows at the end, also
    when the measurement is cut short.
    """
    records: list[harness.Record] = []
    try:
        for record in harness.measure(name, cases, repeats, harness.run_pinned):
            print(_progress(record), file=sys.stderr, flush=True)
            records.append(record)
            harness.replace_records(output / report.RECORDS, records)
    finally:
        report.write(output)
    return not any("error" in record for record in records)


def _progress(record: harness.Record) -> str:
    where = "{name}, {environment}, {cores} cores, repeat {repeat}, {contestant}".format(**record)
    if "error" in record:
        return f"{where}: {record['error']}"
    return f"{where}: {record['metric']} {report.number(record['value'])} {record['unit']}"


def _die(message: str) -> None:
    print(f"benchmarks/run.sh: {message}", file=sys.stderr)
    sys.exit(os.EX_CONFIG)


def main(argv: list[str]) -> None:
    """Runs the measurements named in `argv`; exits with 1 if a program failed."""
    arguments = parse_arguments(argv)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, frame: sys.exit(128 + received))
    measurements = select_cases(arguments)
    contestants = {c for cases in measurements.values() for case in cases for c in case.commands}
    if contestants & set(PEERS):
        setup = [str(harness.PROJECT / "benchmarks" / "setup_peers.sh")]
        if code := subprocess.run(setup).returncode:
            sys.exit(code)
    harness.adopt_orphans()
    arguments.output.mkdir(parents=True, exist_ok=True)
    repeats = range(arguments.first_repeat, arguments.repeats + 1)
    succeeded = [
        run_measurement(name, cases, repeats, arguments.output)
        for name, cases in measurements.items()
    ]
    sys.exit(0 if all(succeeded) else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
