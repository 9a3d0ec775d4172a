"""The learner program: samples minibatches, trains the agent, publishes the policy.

Example: python tfagents_system/sac_train.py --exp_dir logs/arm --replay_address localhost:8000
Reads config.json, params.py and the newest checkpoint generation in the experiment's folder.
Writes checkpoints/, policies/, train/ (TensorBoard), gin.txt, status/learner.json and, at the end,
finished.json; if training diverges, diverged_<train_step>.npz.
"""

import contextlib
import functools
import sys
import time
from typing import Annotated, Any

import reverb
import tensorflow as tf

from tfagents_system.assembly import Assembly, assemble_apart
from tfagents_system.core.errors import (
    EXIT_DIVERGED,
    EXIT_FINISHED,
    EXIT_STOPPED,
    ConfigError,
    StorageError,
)
from tfagents_system.core.programs.command_line import AtLeast
from tfagents_system.core.programs.params_loader import Run, gin_text, load_run
from tfagents_system.core.programs.program import StopFlag, run_program
from tfagents_system.core.seeds import SeedPurpose, derive_seed
from tfagents_system.core.settings.minibatches import trains_offline
from tfagents_system.core.state.incarnation import Fence
from tfagents_system.core.state.provenance import StartRecord, record_gin
from tfagents_system.core.state.reports import Phase
from tfagents_system.core.state.run_spec import RunSpec
from tfagents_system.core.state.saved_training import unsaved_before
from tfagents_system.environments.global_generators import seed_global_generators
from tfagents_system.kernels.arithmetic import explain, this_host
from tfagents_system.learning.checkpoints import Checkpointer
from tfagents_system.learning.divergence import DivergedError, removes_cause
from tfagents_system.learning.early_end import EarlyEnd
from tfagents_system.learning.held_demonstrations import HeldDemonstrations, hold_demonstrations
from tfagents_system.learning.initial_weights import initialize
from tfagents_system.learning.last_save import STOP_TIMEOUT_SECS, LastSave
from tfagents_system.learning.learner import Learner
from tfagents_system.learning.learner_records import LearnerRecords
from tfagents_system.learning.policy_export import PolicyExporter
from tfagents_system.learning.publications import Publications
from tfagents_system.learning.run_data import LearnerData, learner_data
from tfagents_system.records.run_history import training_secs_so_far
from tfagents_system.services.replay import ReplaySnapshots


class Training:
    """Builds the learner's parts and runs its training loop.

    After each call of the learner, which lasts at most until the end of the iteration, it publishes
    the policy and writes what is due: summaries, a checkpoint.
    """

    def __init__(
        self, run: Run, made: Assembly, spec: RunSpec, data: LearnerData, unrolls: bool,
        client: reverb.Client, fence: Fence,
    ):  # fmt: skip
        """Restores the newest checkpoint; `train` makes the parts."""
        self._run, self._made, self._data, self._fence = run, made, data, fence
        agent, self._train_step = made.agent, made.train_step
        self._learner = Learner(
            agent, made.reader, data.sources, made.reward_signals, unrolls=unrolls
        )
        checkpoints = run.paths.checkpoints
        self._snapshots = ReplaySnapshots(client, made.layout, checkpoints, fence.number)
        self._checkpointer = Checkpointer(
            checkpoints, agent, self._train_step, self._snapshots, spec.item, made.arithmetic,
            fence, made.reward_signals,
        )  # fmt: skip
        self._exporter = PolicyExporter(run.paths, agent, self._train_step, fence)
        self._last_save = LastSave(
            self._checkpointer, self._exporter, run.paths, fence, self._publish
        )
        is_restored = self._checkpointer.restore()
        self._begins_anew = None if is_restored else unsaved_before(run.paths)
        if not is_restored and run.paths.initial_weights.exists():
            print(initialize(agent, run.paths.initial_weights, made.streams))
        self.records = LearnerRecords(
            run, self._train_step, self._checkpointer.record, data.offline
        )
        if self.train_step:  # else the random numbers of the run's first steps would repeat
            seed = derive_seed(run.seed, SeedPurpose.LEARNER, env_step=self.train_step)
            seed_global_generators(functools.partial(derive_seed, seed))
        variables = agent.collect_policy.variables()
        self._publications = Publications(run, client, variables, fence, self.train_step)
        self._timer = self.records.timer
        self._saved_at = time.monotonic()
        secs_before = functools.partial(training_secs_so_far, run.paths)
        self._early_end = EarlyEnd(run.paths, run.params.stop_when, secs_before, data.in_lock_step)
        self._start = StartRecord(run.paths, run.gin_bindings, made.arithmetic, fence)
        fence.check()
        record_gin(run.paths.gin, gin_text(run.params))

    @property
    def train_step(self) -> int:
        """The number of train steps done."""
        return self.records.train_step

    @property
    def iteration(self) -> int:
        """The number of iterations done."""
        return self.records.iteration

    def run(self, stop: StopFlag, may_recover: bool) -> int | None:
        """Trains until finished or stopped, saves, and returns the exit code.

        Returns None if training has diverged and can resume from the last checkpoint without the
        items that caused it.
        """
        params = self._run.params
        num_steps = params.num_steps_per_iter
        self.records.started()
        self._publish()
        begins = Phase.STARTING if trains_offline(params) else Phase.WAITING_FOR_DATA
        self.records.report_now(begins, self._status_fields)
        self._exporter.prepare()  # while workers fill the replay buffer
        while not self._is_finished and not stop:
            if self.records.hold(stop, self._status_fields):
                self._publish(timeout_secs=0.0)  # a restarted replay server has lost the policy
                continue
            train_step, iteration = self.train_step, self.iteration
            # The first fill is no bottleneck.
            waiting = "waiting for data" if self._start.is_proven else "waiting for the first data"
            self._timer.enter(waiting)
            compiling = functools.partial(self.records.compiling, waiting, self._status_fields)
            try:
                metrics = self._learner.run(num_steps - train_step % num_steps, stop, compiling)
            except DivergedError as error:
                return self._give_up(error, may_recover)
            call_secs = self._timer.enter("publishing")
            if metrics is not None:
                wait_secs = metrics["data_wait_secs"] * (self.train_step - train_step)
                self._timer.move(call_secs - wait_secs, waiting, "train steps")
                if self.train_step % num_steps == 0:
                    self._early_end.look()
            phase = Phase.WAITING_FOR_DATA if metrics is None else Phase.TRAINING
            self.records.report(phase, self._status_fields)
            # Also without a step: a restarted replay server may have lost the variables.
            # Does not wait for the confirmation, which takes half a second during a save.
            self._publish(timeout_secs=0.0)
            if metrics is None:
                self._publications.tickets.doubt_server()
                self._timer.enter(waiting)
                time.sleep(0.1)  # an unreachable server refuses at once
                continue
            if self.train_step == train_step:
                raise ConfigError(
                    "The agent of TrainParams.agent_ctor does not count its train steps: pass the "
                    "hook's argument train_step on as train_step_counter."
                )
            self._start.has_trained()
            self._timer.enter("saving")
            self.records.trained(metrics, self.train_step - train_step)
            if self._has_passed(params.log_period_itrs, iteration):
                self.records.summarize(self._data.numbers(), self._publications.lessons.numbers)
            if not self._is_finished:
                self._save_if_due(self._has_passed(params.checkpoint_period_itrs, iteration))
            self.records.advanced()
        return self._end(stop)

    def _publish(self, timeout_secs: float = 5.0) -> bool:
        return self._publications.publish(self.train_step, self._is_finished, timeout_secs)

    def _save_if_due(self, is_period_over: bool) -> None:
        """Saves the training state after a period of iterations or of time, whichever is shorter.

        Saves later if the previous save took long: see `Checkpointer.is_affordable`.
        """
        is_late = time.monotonic() >= self._saved_at + self._run.params.checkpoint_period_secs
        is_due = (is_period_over or is_late) and self._checkpointer.is_affordable
        if is_due and self._checkpointer.save():
            self._saved_at = time.monotonic()
        if is_period_over:
            self._exporter.export()

    def _has_passed(self, period: int, iteration: int) -> bool:
        """Returns whether a multiple of `period` lies between `iteration` and now."""
        return self.iteration // period > iteration // period

    @property
    def _is_finished(self) -> bool:
        ends_early = self._start.is_proven and self._early_end.reason is not None
        return ends_early or self.train_step >= self._run.num_train_steps

    def _end(self, stop: StopFlag) -> int:
        if self._learner.is_compiling:  # compiling uses the agent, so it cannot be saved now
            print("Stopped while the train step was being compiled: there is nothing to save.")
            return EXIT_STOPPED
        self._report_saving()
        self._start.is_saved()
        try:
            if not self._is_finished:
                self._last_save.on_stop(self.train_step)
                return EXIT_STOPPED
            facts = self._end_facts()
            if not self._last_save.at_end(self.train_step, facts, stop, self._report_saving):
                return EXIT_STOPPED
        except StorageError:
            self._report_saving()  # and prints it
            raise
        finally:
            self.records.close()
        self.records.report_now(Phase.FINISHED, self._status_fields)
        return EXIT_FINISHED

    def _end_facts(self) -> dict[str, Any]:
        """Returns what later starts need to know of the end of training."""
        is_early = self.train_step < self._run.num_train_steps
        early = self._early_end.facts(self.iteration) if is_early else {}
        return {"num_iter": self._run.params.num_iter} | early

    def _report_saving(self) -> None:
        self.records.report_now(Phase.SAVING, self._status_fields)

    def _give_up(self, error: DivergedError, may_recover: bool) -> int | None:
        """Saves only the minibatch at which training diverged, and publishes nothing."""
        self._fence.check()
        is_saved = self._checkpointer.wait(STOP_TIMEOUT_SECS)  # an earlier one, of a finite state
        discard_items = self._snapshots.discard_items if is_saved and may_recover else None
        goes_on = removes_cause(error, self.train_step, self._run.paths, discard_items)
        self.records.report_now(Phase.DIVERGED, self._status_fields)
        self.records.close()
        return None if goes_on else EXIT_DIVERGED

    def _status_fields(self) -> dict[str, Any]:
        return {
            "graph_traces": self._learner.num_traces,
            "arithmetic": self._made.arithmetic,
            "reward_signals": self._made.signal_names,
            "lessons": self._publications.lessons.shown,
            "waits_for": self._learner.waits_for,
            "arithmetic_change": self._checkpointer.arithmetic_change,
            "not_saved": self._checkpointer.record.problem,
            "not_exported": self._exporter.problem,
            "removed_items": self._snapshots.num_removed,
            "begins_anew": self._begins_anew,
        }


def train(
    exp_dir: str,
    replay_address: str,
    num_cpus: Annotated[int, AtLeast(1)] = 1,
    deterministic: bool = False,
    incarnation: Annotated[int, AtLeast(0)] = 0,
    *,
    stop: StopFlag,
) -> int:
    """Runs the learner of an experiment; returns the exit code.

    Args:
      exp_dir: Folder of the experiment.
      replay_address: host:port of the replay server.
      num_cpus: CPUs that this program may use.
      deterministic: Take turns with the worker.
      incarnation: The claim of this start of the run; see core/state/incarnation.py.
      stop: Ends training, after a save, when true.
    """
    # The graph's branches (critics, targets, actor) run in parallel; splitting one small matrix
    # product over threads costs more than it gains.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(num_cpus)
    run = load_run(exp_dir)
    fence = Fence.of_core(run.paths, incarnation)
    fence.check()
    # Steps can overlap on several cores. With LSTMs this gained nothing and compiled slowly.
    unrolls = num_cpus > 1 and not run.params.recurrent and not deterministic
    client = reverb.Client(replay_address)
    for may_recover in (True, False):
        made, spec, held = _begin(run, fence)
        data = learner_data(run, replay_address, made, held, deterministic)
        with contextlib.closing(data):
            training = Training(run, made, spec, data, unrolls, client, fence)
            if (code := training.run(stop, may_recover)) is not None:
                training.records.ended(code)
                return code
    raise AssertionError("who may not recover returns an exit code")


def _begin(run: Run, fence: Fence) -> tuple[Assembly, RunSpec, HeldDemonstrations | None]:
    """Builds the agent and writes the run's spec, for which the other programs wait."""
    seed = derive_seed(run.seed, SeedPurpose.LEARNER)
    seed_global_generators(functools.partial(derive_seed, seed))  # for initial weights, too
    made = assemble_apart(run.params, seed)
    print(explain(made.arithmetic, this_host()))
    fence.check()
    demonstrations = hold_demonstrations(run, made, fence)
    spec = made.view_of(run, made.arithmetic, demonstrations.digest if demonstrations else None)
    spec.agree(run.paths.run_spec)
    return made, spec, demonstrations


if __name__ == "__main__":
    run_program(train, sys.argv)
