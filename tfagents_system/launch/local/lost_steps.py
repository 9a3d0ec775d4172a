"""Reports the train steps that a killed learner had not saved.

Example: python -m tfagents_system.launch.local.lost_steps logs/pendulum   (train_script.sh does)
The exit code is 74 if train steps are lost; otherwise nothing is printed.
"""

import pathlib
import sys

from tfagents_system.core.errors import EXIT_STORAGE
from tfagents_system.core.programs.command_line import run_tool
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.saved_training import saved_and_trained


def tell_loss(exp_dir: pathlib.Path, /) -> int:
    """Prints how many train steps are lost, and from where the next start resumes.

    Args:
      exp_dir: Folder of the experiment.
    """
    saved, trained = saved_and_trained(ExperimentPaths(exp_dir))
    if trained <= (saved or 0):
        return 0
    way = "starts again from nothing" if saved is None else f"resumes from train step {saved:,}"
    print(f"Stopped, but not saved: the learner was killed at train step {trained:,} before it "
          f"had saved; {trained - (saved or 0):,} train steps are lost. The same command {way}."
    )  # fmt: skip
    return EXIT_STORAGE


if __name__ == "__main__":
    run_tool(tell_loss, sys.argv)
