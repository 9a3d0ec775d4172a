"""Tells what a run that has ended leaves, and how to go on.

Example: python -m tfagents_system.launch.show.ending logs/pendulum   (train_script.sh does)
"""

import os
import pathlib
import shlex
import sys
from typing import Any

from tfagents_system.core.display import printable
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.command_line import run_tool
from tfagents_system.core.state.best_policies import best_policy
from tfagents_system.core.state.files import read_json
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.reports import ReportError
from tfagents_system.core.state.saved_training import saved_and_trained


def ending(paths: ExperimentPaths) -> str:
    """Returns the lines for a run that has ended."""
    if paths.finished.exists():
        return _finished(paths)
    if paths.clone.exists():
        folder = printable(shlex.quote(str(paths.root)))
        return f"sac clone has trained it. Evaluate it: sac eval {folder}"
    return (
        "Nothing is running, and training is not finished: the command that started it "
        f"{_way_on(paths)}."
    )


def _finished(paths: ExperimentPaths) -> str:
    """Returns where the policy is, and how to see it; also the best one, if it is another."""
    try:
        facts = read_json(paths.finished)
    except (OSError, ValueError):  # damaged
        facts = None
    facts = facts if isinstance(facts, dict) else {}
    command = [str(_python()), "-m", "tfagents_system", "eval", str(paths.root)]
    text = (
        f"Training is finished{_early_end(facts)}. The policy is in "
        f"{printable(paths.policies / 'greedy_policy')}. To see it:\n"
        f"  {printable(shlex.join(command))} --num_episodes 5"
    )
    best, last_step = best_policy(paths), facts.get("train_step")
    if best is not None and isinstance(last_step, int) and best.train_step < last_step:
        text += (
            f"\nThe best evaluation returned {best.mean_return:,.1f}, after iteration "
            f"{best.iteration:,}; --checkpoint best shows that policy."
        )
    return text


def _early_end(facts: dict[str, Any]) -> str:
    """Returns why training has ended before its last iteration, as text; empty if it has not."""
    if "stopped_because" not in facts:
        return ""
    done = f"{facts.get('iteration')} of {facts.get('num_iter')} iterations"
    return printable(f", after {done}, because {facts['stopped_because']}")


def _python() -> pathlib.Path:
    """Returns this Python, relative to the working directory if it is below."""
    python, here = pathlib.Path(sys.executable), pathlib.Path(os.getcwd())
    return python.relative_to(here) if python.is_relative_to(here) else python


def _way_on(paths: ExperimentPaths) -> str:
    """Returns where the next start resumes, and what it lacks, as text."""
    try:
        saved, trained = saved_and_trained(paths)
    except (ReportError, ConfigError, OSError):
        return "resumes from the last checkpoint"
    way = "starts again from nothing"
    if saved is not None:
        way = f"resumes from the checkpoint at train step {saved:,}"
    lost = trained - (saved or 0)
    return f"{way}; {lost:,} train steps more were not saved" if lost > 0 else way


def tell(exp_dir: pathlib.Path, /) -> None:
    """Prints the lines for a run that has ended.

    Args:
      exp_dir: Folder of the experiment.
    """
    print(ending(ExperimentPaths(exp_dir)))


if __name__ == "__main__":
    run_tool(tell, sys.argv)
