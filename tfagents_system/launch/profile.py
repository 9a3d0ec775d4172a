"""Shows where each program of a run spends its time.

Usage: python -m tfagents_system.launch.profile EXP_DIR [SECS]

Reads status/<program>.json twice, SECS (default 10) apart, and prints the phases in between; of a
run that has ended, those since its programs started. TensorBoard shows the same shares over the
course of the run (`learner_time/`, `collect_time/`).
"""

import json
import pathlib
import sys
import time
from collections.abc import Mapping

from tfagents_system.core.errors import EXIT_CONFIG
from tfagents_system.core.paths import ExperimentPaths

DEFAULT_SECS = 10.0


def read_phase_secs(paths: ExperimentPaths) -> dict[str, dict[str, float]]:
    """Returns the seconds of each phase by program; programs without phases are left out."""
    found = {}
    for path in sorted(paths.statuses.glob("*.json")):
        try:
            phases = json.loads(path.read_text()).get("phase_secs")
        except (OSError, ValueError):
            continue  # being removed, or damaged: the next report replaces it
        if phases:
            found[path.stem] = phases
    return found


def phases_between(
    before: Mapping[str, Mapping[str, float]], after: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    """Returns the seconds that each program spent in each phase between two readings.

    A program that has not reported in between, or has started anew, keeps its totals.
    """
    result = {}
    for program, totals in after.items():
        earlier = before.get(program, {})
        secs = {phase: total - earlier.get(phase, 0.0) for phase, total in totals.items()}
        is_comparable = sum(secs.values()) > 0 and min(secs.values()) > -1e-3
        result[program] = secs if is_comparable else dict(totals)
    return result


def profile_table(phases: Mapping[str, Mapping[str, float]]) -> str:
    """Returns one line for each program: its phases by their share of the time, largest first."""
    lines = []
    for program, secs in phases.items():
        elapsed = max(sum(secs.values()), 1e-9)
        ranked = sorted(secs.items(), key=lambda item: -item[1])
        shares = ", ".join(f"{phase} {value / elapsed:.1%}" for phase, value in ranked if value > 0)
        lines.append(f"{program:<12}{elapsed:8.1f} s: {shares}")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Prints the table; returns the exit code."""
    if len(arguments) not in (1, 2):
        print("usage: python -m tfagents_system.launch.profile EXP_DIR [SECS]", file=sys.stderr)
        return EXIT_CONFIG
    secs_text = arguments[1] if len(arguments) == 2 else str(DEFAULT_SECS)
    if not secs_text.replace(".", "", 1).isdigit():
        print(f"profile: SECS is {secs_text!r}; allowed is a number >= 0.", file=sys.stderr)
        return EXIT_CONFIG
    paths = ExperimentPaths(pathlib.Path(arguments[0]))
    before = read_phase_secs(paths)
    if not before:
        print(f"profile: no program has reported phases in {paths.statuses}: is {arguments[0]} "
              "an experiment that trains, or has trained?", file=sys.stderr)  # fmt: skip
        return EXIT_CONFIG
    time.sleep(float(secs_text))
    print(profile_table(phases_between(before, read_phase_secs(paths))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
