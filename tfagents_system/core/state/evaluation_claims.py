"""Decides which program sums up an evaluation: the first that finds it complete.

A program claims an evaluation by making a file, named by the train step, in
`checkpoints/evaluations/`; only one program on any host can make it. So an evaluation is reported
once, even if two workers record its last episodes at the same time, or if episodes are repeated
because the replay server has lost their tickets.
"""

from tfagents_system.core.state.files import make_folder_durably
from tfagents_system.core.state.paths import ExperimentPaths

MOST_KEPT = 100  # claims; only the newest few evaluations can still get episodes


def claim_evaluation(paths: ExperimentPaths, train_step: int) -> bool:
    """Claims the evaluation of a train step's policy; returns False if it was claimed before."""
    folder = paths.evaluations
    make_folder_durably(folder)
    own = folder / f"{train_step:010d}"
    try:
        own.touch(exist_ok=False)  # of two at once, one fails, even on NFS
    except FileExistsError:
        return False
    for old in sorted(folder.glob("[0-9]*"))[:-MOST_KEPT]:
        if old != own:
            old.unlink(missing_ok=True)
    return True
