"""Compares the training so far with what is saved."""

from tfagents_system.core.state.generations import generations
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.reports import read_report, report_or_none


def saved_and_trained(paths: ExperimentPaths) -> tuple[int | None, int]:
    """Returns the train steps of the newest checkpoint, and of the learner's last report.

    Raises:
      ReportError: If the learner's report is damaged.
      ConfigError: If the checkpoints cannot be read.
    """
    report = read_report(paths, "learner")
    newest = next(iter(generations(paths.checkpoints)), None)
    return int(newest.name) if newest else None, report.train_step if report else 0


def unsaved_before(paths: ExperimentPaths) -> str | None:
    """Describes the training of an earlier learner that was lost without a checkpoint."""
    before = report_or_none(paths, "learner")
    if before is None or not before.train_step:
        return None
    return f"there is no checkpoint of the {before.train_step:,} train steps before"
