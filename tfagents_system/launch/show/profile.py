"""Shows how each program of a run spends its time.

Example: sac profile logs/pendulum

Reads status/<program>.json twice, SECS apart, and prints the phases in between; for a run that has
ended, those since its programs started. TensorBoard shows the same shares over the run
(`learner_time/`, `collect_time/`).
"""

import pathlib
import time
from collections.abc import Mapping
from typing import Annotated

from tfagents_system.core.display import printable
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.command_line import AtLeast
from tfagents_system.core.state.paths import existing_experiment
from tfagents_system.core.state.reports import read_phase_secs


def phases_between(
    before: Mapping[str, Mapping[str, float]], after: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    """Returns the seconds that each program spent in each phase between two readings.

    A program that has not reported in between, or has restarted, keeps its totals.
    """
    result = {}
    for program, totals in after.items():
        earlier = before.get(program, {})
        secs = {phase: total - earlier.get(phase, 0.0) for phase, total in totals.items()}
        is_comparable = sum(secs.values()) > 0 and min(secs.values()) > -1e-3
        result[program] = secs if is_comparable else dict(totals)
    return result


def profile_table(phases: Mapping[str, Mapping[str, float]]) -> str:
    """Returns one line for each program, with its phases by share of time, largest first."""
    lines = []
    for program, secs in phases.items():
        elapsed = max(sum(secs.values()), 1e-9)
        ranked = sorted(secs.items(), key=lambda item: -item[1])
        shares = ", ".join(f"{phase} {value / elapsed:.1%}" for phase, value in ranked if value > 0)
        lines.append(printable(f"{program:<12}{elapsed:8.1f} s: {shares}"))
    return "\n".join(lines)


def profile(exp_dir: pathlib.Path, secs: Annotated[float, AtLeast(0, 86_400)] = 10.0, /) -> None:
    """Prints the table.

    Args:
      exp_dir: Folder of the experiment.
      secs: Seconds between the two readings.

    Raises:
      ConfigError: If there is no such experiment, or no program of it has reported phases.
    """
    paths = existing_experiment(exp_dir)
    before = read_phase_secs(paths)
    if not before:
        raise ConfigError(f"No program has reported phases in {paths.statuses}: is {exp_dir} an "
                          "experiment that trains, or has trained?")  # fmt: skip
    time.sleep(secs)
    print(profile_table(phases_between(before, read_phase_secs(paths))))
