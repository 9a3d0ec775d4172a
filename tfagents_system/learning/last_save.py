"""Saves everything at the end of the learner, and reports what could not be saved."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from tfagents_system.core.errors import StorageError
from tfagents_system.core.state.disk import SpaceGuard
from tfagents_system.core.state.files import write_json_durably
from tfagents_system.core.state.incarnation import Fence
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.waiting import wait_until
from tfagents_system.learning.checkpoints import Checkpointer
from tfagents_system.learning.policy_export import PolicyExporter

SAVE_TIMEOUT_SECS = 600.0  # at the end of training, also for the last variables
RETRY_PERIOD_SECS = 5.0  # at the end of training, between attempts to save
UNFINISHED = "their checkpoint was not finished in time"
STOP_TIMEOUT_SECS = 50.0  # for each of two saves of a stop; see launch/local/stop_times.sh


class LastSave:
    """The learner's last checkpoint and policy, after a stop or after its last train step."""

    def __init__(
        self,
        checkpointer: Checkpointer,
        exporter: PolicyExporter,
        paths: ExperimentPaths,
        fence: Fence,
        publish: Callable[[], bool],
    ):
        """Saves nothing yet; `publish` publishes the last variables and returns whether it did."""
        self._checkpointer, self._exporter = checkpointer, exporter
        self._paths, self._fence, self._publish = paths, fence, publish

    def on_stop(self, train_step: int) -> None:
        """Saves once.

        Raises:
          StorageError: If the training since the newest checkpoint could not be saved.
        """
        self._exporter.export()
        self._save(train_step, STOP_TIMEOUT_SECS)
        self._check_is_saved(train_step)

    def at_end(
        self, train_step: int, facts: Mapping[str, Any], stop: object, report: Callable[[], None]
    ) -> bool:
        """Saves everything, tells the workers to end, and records that training is finished.

        Waits for space on a full disk, and SAVE_TIMEOUT_SECS for a failing one.

        Args:
          train_step: The last train step.
          facts: Recorded with it in `finished.json`.
          stop: Ends the wait when true.
          report: Called after each failed attempt.

        Returns:
          Whether training is finished; False after a stop.

        Raises:
          StorageError: If something could not be saved.
        """
        deadline = time.monotonic() + SAVE_TIMEOUT_SECS
        while not self._finish(train_step, facts):
            report()
            waits_for_space = self._checkpointer.lacks_space or self._exporter.lacks_space
            if stop or (time.monotonic() >= deadline and not waits_for_space):
                self._check_is_saved(train_step)
                if stop:
                    return False
                raise StorageError(
                    f"training has reached its end, train step {train_step:,}, and its checkpoint "
                    f"is saved, but not all else is: {self._exporter.problem}. The same command "
                    "tries that again."
                )
            time.sleep(RETRY_PERIOD_SECS)
        return True

    def _finish(self, train_step: int, facts: Mapping[str, Any]) -> bool:
        is_exported = self._exporter.export()
        is_saved = self._save(train_step, SAVE_TIMEOUT_SECS)
        if not (is_exported and is_saved):
            return False
        # Workers end at the last train step; those that miss it end when they see the file.
        wait_until(self._publish, SAVE_TIMEOUT_SECS, "the replay server to take the last variables")
        self._fence.check()
        with (guard := SpaceGuard("finished.json", self._paths.root)):
            write_json_durably(self._paths.finished, {"train_step": train_step, **facts})
        return not guard.is_full

    def _save(self, train_step: int, timeout_secs: float) -> bool:
        """Saves the current state; returns whether it did."""
        self._checkpointer.wait(timeout_secs)  # for an earlier save, of an older state
        is_begun = self._checkpointer.save()
        if not self._checkpointer.wait(timeout_secs):
            print(f"The checkpoint at train step {train_step} did not finish within "
                  f"{timeout_secs:g} s; the run resumes from the one before.")  # fmt: skip
            return False
        return is_begun and not self._checkpointer.record.failed

    def _check_is_saved(self, train_step: int) -> None:
        record = self._checkpointer.record
        num_lost = train_step - (record.train_step or 0)
        if num_lost == 0:  # a checkpoint of this state exists already
            return
        goes_on = (
            "There is no checkpoint: the same command starts again from nothing"
            if record.train_step is None
            else f"The same command resumes from train step {record.train_step:,}"
        )
        raise StorageError(
            f"the last {num_lost:,} train steps are not saved: "
            f"{f'nothing has been for {record.problem}' if record.problem else UNFINISHED}. "
            f"{goes_on}."
        )
