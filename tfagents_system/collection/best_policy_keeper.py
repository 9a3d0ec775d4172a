"""Sums up complete evaluations and keeps the policy with the best one."""

import math
import shutil
from collections.abc import Sequence

import tensorflow as tf

from tfagents_system.collection.stop_by_evaluations import reason_to_stop
from tfagents_system.core.meters import mean_of
from tfagents_system.core.programs.callbacks import Callbacks, EvaluationEvent
from tfagents_system.core.programs.params_loader import Run, gin_text
from tfagents_system.core.state.best_policies import EvaluatedPolicy, add_best_policy, best_policy
from tfagents_system.core.state.disk import SpaceGuard
from tfagents_system.core.state.end_request import request_end
from tfagents_system.core.state.evaluation_claims import claim_evaluation
from tfagents_system.core.state.files import temporary_name
from tfagents_system.learning.policy_export import write_policy
from tfagents_system.records.episode_rows import EpisodeRow
from tfagents_system.records.event_log import EventLog
from tfagents_system.records.run_history import (
    evaluation_of,
    numbers_of_evaluations,
    reports_success,
)
from tfagents_system.records.success import success_rate
from tfagents_system.services.versions import PolicyVersion


class BestPolicyKeeper:
    """Adds a policy to `policies/best` if its evaluation is complete and the best of the run.

    The program that records an evaluation's last episode sees all of them in the records.
    """

    def __init__(self, run: Run, variables: Sequence[tf.Variable], callbacks: Callbacks):
        """`variables` are the policy's; saving a policy assigns its values to them.

        `callbacks` are told of complete evaluations.
        """
        self._run, self._variables, self._callbacks = run, variables, callbacks
        self._guard = SpaceGuard("best policy", run.paths.policies)

    def keep(self, version: PolicyVersion) -> None:
        """Keeps a `PolicyVersion` if it is the best; call it after each recorded episode.

        Writes a complete evaluation, of all programs, to TensorBoard, and decides on `stop_when`.
        Later episodes of it count for the best policy, but are not told again.
        """
        paths, params = self._run.paths, self._run.params
        rows = evaluation_of(paths, version.train_step)
        returns = [row.episode_return for row in rows]
        if len(returns) < params.n_eval_episodes or not all(map(math.isfinite, returns)):
            return
        best, mean = best_policy(paths), mean_of(returns)
        is_better = best is None or mean > best.mean_return
        if reason := reason_to_stop(self._run):
            request_end(paths, reason)
        is_first = claim_evaluation(paths, version.train_step)
        if is_first:
            self._summarize(version.train_step, rows, mean)
        if is_better:
            self._save(version, mean, len(returns))
        if is_first:
            # Another program that has found it complete may have saved it already.
            is_best = is_better or (best is not None and best.train_step == version.train_step)
            self._tell(version.train_step, rows, mean, is_best)

    def _save(self, version: PolicyVersion, mean: float, num_episodes: int) -> None:
        paths = self._run.paths
        folder = paths.best_policies / paths.policy_checkpoint(version.train_step).name
        iteration = self._iteration_of(version.train_step)
        policy = EvaluatedPolicy(folder, iteration, version.train_step, mean, num_episodes)
        unfinished = temporary_name(folder)
        for variable, value in zip(self._variables, version.values, strict=True):
            variable.assign(value)
        with self._guard:
            try:
                write_policy(unfinished, self._variables)
                add_best_policy(paths, unfinished, policy)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)

    def _summarize(self, train_step: int, rows: Sequence[EpisodeRow], mean_return: float) -> None:
        """Writes a separate event file, because TensorBoard follows only the newest of a folder."""
        folder = self._run.paths.eval_summaries
        scalars = {"eval/mean_return": mean_return}
        if (rate := self._success_rate(rows)) is not None:
            scalars["eval/success_rate"] = rate
        numbers = self._numbers_of(train_step)
        scalars |= {f"eval/info/{name}": value for name, value in numbers.items()}
        texts = {}
        if not any(folder.glob("events.*")):
            lines = gin_text(self._run.params).splitlines()
            texts["hyperparameters"] = "\n".join(f"    {line}" for line in lines)
        log = EventLog(folder)
        log.write(
            train_step, scalars, {"eval/returns": [row.episode_return for row in rows]}, texts
        )
        log.close()

    def _tell(
        self, train_step: int, rows: Sequence[EpisodeRow], mean_return: float, is_best: bool
    ) -> None:
        self._callbacks.call(
            "on_evaluation", EvaluationEvent,
            iteration=self._iteration_of(train_step), train_step=train_step,
            returns=[row.episode_return for row in rows], mean_return=mean_return,
            success_rate=self._success_rate(rows), numbers=self._numbers_of(train_step),
            is_best=is_best,
        )  # fmt: skip

    def _iteration_of(self, train_step: int) -> int:
        return train_step // self._run.params.num_steps_per_iter

    def _success_rate(self, rows: Sequence[EpisodeRow]) -> float | None:
        return success_rate([row.success for row in rows], reports_success(self._run.paths))

    def _numbers_of(self, train_step: int) -> dict[str, float]:
        return numbers_of_evaluations(self._run.paths).get(train_step, {})
