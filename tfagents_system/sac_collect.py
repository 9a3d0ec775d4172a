"""The worker program: steps environments, writes experience, evaluates its share.

Example: python tfagents_system/sac_collect.py --exp_dir logs/arm --replay_address localhost:8000
The variable SLURM_PROCID is the worker's number K, 0 if not set.
Reads config.json and params.py in the experiment's folder. Writes episodes/{collect,eval}_K.csv,
train/ and eval/ (TensorBoard), status/worker_K.json, videos/training/ (see video_period_itrs) and,
after the last episode of the best evaluation, policies/best/. With --nocollects the program only
evaluates: it is evaluator K, and writes episodes/eval_evaluator_K.csv and status/evaluator_K.json.
"""

import functools
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import numpy as np
import reverb
import tensorflow as tf

from tfagents_system.assembly import Assembly, assemble
from tfagents_system.collection import environment_rules
from tfagents_system.collection.best_policy_keeper import BestPolicyKeeper
from tfagents_system.collection.evaluating_worker import EvaluatingWorker
from tfagents_system.collection.experience import Experience
from tfagents_system.collection.goal_relabelling import GoalRelabelling
from tfagents_system.collection.lock_step_worker import LockStepWorker
from tfagents_system.collection.newest_policies import NewestPolicies
from tfagents_system.collection.side_by_side_worker import SideBySideWorker
from tfagents_system.collection.worker_environments import make_environments
from tfagents_system.collection.worker_records import WorkerRecords
from tfagents_system.core.errors import EXIT_FINISHED, EXIT_STOPPED, ConfigError
from tfagents_system.core.process.guest import GUEST
from tfagents_system.core.programs.command_line import AtLeast
from tfagents_system.core.programs.params_loader import Run, load_run
from tfagents_system.core.programs.program import StopFlag, prefer_response, run_program
from tfagents_system.core.seeds import SeedPurpose, derive_seed
from tfagents_system.core.settings.minibatches import trains_offline
from tfagents_system.core.settings.params import Params
from tfagents_system.core.state.liveness import SILENT_SECS
from tfagents_system.core.state.run_spec import await_run_spec
from tfagents_system.core.state.running import is_finished
from tfagents_system.environments.global_generators import seed_global_generators
from tfagents_system.environments.remarks import remarks_on
from tfagents_system.policies.acting import AgentPolicies, RandomPolicy
from tfagents_system.policies.numpy_policies import generators
from tfagents_system.services.adder import Adder
from tfagents_system.services.checkpoint_watch import CheckpointWatch
from tfagents_system.services.intervention_files import InterventionFile
from tfagents_system.services.journal import Journal, Stream
from tfagents_system.services.replay import EXPERIENCE_TABLE, experience_stats
from tfagents_system.services.replay_limits import ReplayLimits
from tfagents_system.services.rounds import ROUND_TABLES, RoundPublisher
from tfagents_system.services.signatures import check_columns
from tfagents_system.services.table_info import table_signature
from tfagents_system.services.tickets import TicketTaker
from tfagents_system.services.variables import VariableReader
from tfagents_system.workers import Worker

T = TypeVar("T")

SERVER_TIMEOUT_SECS = 300.0
ANSWER_TIMEOUT_SECS = 5.0
VARIABLES_PERIOD_SECS = 0.5


def collect(
    exp_dir: str,
    replay_address: str,
    worker_id: int,
    env_timeout_secs: float,
    stop: StopFlag,
    deterministic: bool = False,
    collects: bool = True,
    evaluates: bool = True,
) -> int:
    """Runs worker or evaluator `worker_id`; returns the exit code.

    The process ends with a dump of its stacks if an env step takes longer than `env_timeout_secs`.
    A `deterministic` worker takes turns with the learner. See `work` for the rest.

    Raises:
      SupersededError: If a later start of this worker has claimed.
    """
    run = load_run(exp_dir)
    if is_finished(run.paths):
        print("Training is finished: there is nothing to do for this worker.")
        return EXIT_FINISHED
    params = run.params
    if collects and trains_offline(params):
        raise ConfigError(
            f"{run.paths.params}: demonstration_share is 1, so this run trains offline and has no "
            "workers that collect, but one was started. If an expression sets it there, write the "
            "number, or call sac train --offline DATASET: the launcher runs no params file."
        )
    records = WorkerRecords(
        run.paths, worker_id, run.horizon, params.log_period_itrs, collects, params.callbacks,
        ends_at_horizon=params.time_aware,
    )  # fmt: skip
    seed = _seeds(run, worker_id, records, deterministic)
    seed_global_generators(seed)
    watchdog = GUEST.watch(env_timeout_secs)
    environments = make_environments(run, worker_id, seed, watchdog, collects)
    num_slots = environments.num_slots
    if deterministic:
        environment_rules.check_lock_step(num_slots)
    takes_vectors = params.preprocessing_combiner is None
    for remark in remarks_on(environments.collect.current(), takes_vectors):
        records.remark(remark.shown, str(remark))
    made = assemble(params, environments.collect.current())
    rng = np.random.default_rng(seed(SeedPurpose.COLLECT_POLICY))
    policies = AgentPolicies(made.agent, rng, params.exploration_noise_beta, num_slots)
    if policies.obstacle:
        records.acts_in_tensorflow(policies.obstacle)
    client = reverb.Client(replay_address)
    if not await_run_spec(run.paths.run_spec, stop):
        return EXIT_STOPPED
    made.view_of(run).check(run.paths.run_spec)
    signature = _ask_server(
        lambda: table_signature(client, EXPERIENCE_TABLE, ANSWER_TIMEOUT_SECS), stop
    )
    check_columns(signature, made.columns)
    stream = Stream(worker_id, records.fence.number)
    tables = ROUND_TABLES if deterministic else (EXPERIENCE_TABLE,)
    adder = _make_adder(run, made, client, stream, records, tables, num_slots)
    reader = VariableReader(replay_address, policies.variables, VARIABLES_PERIOD_SECS,
                            num_courses=len(run.curriculum.courses))  # fmt: skip
    num_initial = ReplayLimits.from_settings(params, run.horizon, made.layout).min_size
    make_worker = _worker_class(collects, num_slots)
    if deterministic:
        publish_round = RoundPublisher(client).publish
        make_worker = functools.partial(
            LockStepWorker, publish_round=publish_round, num_initial_items=num_initial
        )
    look = CheckpointWatch(run.paths, stream, env_timeout_secs + SILENT_SECS).look
    relabelling = _make_relabelling(params, seed(SeedPurpose.GOALS), num_slots)
    worker = make_worker(
        run,
        environments,
        NewestPolicies(policies, reader),
        Experience(adder, look, relabelling),
        records,
        should_stop=lambda: stop or (environments.are_worn and not deterministic),
        tickets=TicketTaker(replay_address, policies.variables) if evaluates else None,
        keep_best=BestPolicyKeeper(run, policies.variables, records.callbacks).keep,
    )
    fill_policy = policies.collect
    if params.seed_sac_buffer:
        action_spec = environments.collect.current().action_spec()
        fill_policy = RandomPolicy(action_spec, seed(SeedPurpose.RANDOM_POLICY))
    prefer_response()  # the threads that send and receive exist by now, and keep their policy
    try:
        return worker.run(_num_to_fill_fn(num_initial, client, stop), fill_policy)
    finally:
        environments.close()
        environments.watchdog.rest()
        reader.close()


def _seeds(
    run: Run, worker_id: int, records: WorkerRecords, deterministic: bool
) -> functools.partial[int]:
    """Returns the function of a SeedPurpose that derives the seeds of this start.

    A crash before the first episode must not repeat itself with the same random numbers. The first
    start has the same seeds in all runs with this seed; in a deterministic run, all starts.
    """
    is_repeated = deterministic or records.fence.is_first
    return functools.partial(
        derive_seed,
        run.seed if records.collects else derive_seed(run.seed, SeedPurpose.EVALUATORS),
        index=worker_id,
        env_step=records.env_step,
        start=0 if is_repeated else records.fence.number,
    )


def _worker_class(collects: bool, num_slots: int) -> Callable[..., Worker]:
    if not collects:
        return EvaluatingWorker
    return Worker if num_slots == 1 else SideBySideWorker


def _make_adder(
    run: Run,
    made: Assembly,
    client: reverb.Client,
    stream: Stream,
    records: WorkerRecords,
    tables: Sequence[str],
    num_slots: int,
) -> Adder:
    """Returns the adder, with the files in which a collecting worker keeps experience."""
    params, journal, interventions = run.params, None, None
    max_bytes = int(params.journal_max_mb * 1e6)
    if records.collects and max_bytes:
        columns, rows = made.codec.columns, made.layout.rows
        journal = Journal(run.paths.journals, stream, columns, rows, max_bytes, records.fence)
    if records.collects and params.keep_interventions:
        interventions = InterventionFile(run.paths.interventions, stream, made.codec, made.layout)
    return Adder(client, made.codec, made.layout, journal, tables=tables, gamma=params.discount,
                 num_slots=num_slots, interventions=interventions)  # fmt: skip


def _make_relabelling(params: Params, seed: int, num_slots: int) -> list[GoalRelabelling]:
    """Returns what copies the env steps of each slot with other goals; empty without HER."""
    if not params.her_copies:
        return []
    return [
        GoalRelabelling(params.her_copies, params.her_strategy, rng, params.time_aware)
        for rng in generators(np.random.default_rng(seed), num_slots)
    ]


def _num_to_fill_fn(num_initial: int, client: reverb.Client, stop: StopFlag) -> Callable[[], int]:
    """Returns a function that asks the server how many of the initial fill's items it still lacks.

    The server counts insertions over the whole run, including checkpoints, so the fill happens
    once, whichever worker does it and however often workers restart.
    """

    def num_to_fill() -> int:
        stats = _ask_server(lambda: experience_stats(client, ANSWER_TIMEOUT_SECS), stop)
        return num_initial - stats[1] if stats else 0

    return num_to_fill


def _ask_server(ask: Callable[[], T], stop: StopFlag) -> T | None:
    """Returns the result of `ask`, which is repeated at a TimeoutError; None after a stop.

    Raises:
      TimeoutError: If the server does not answer for a long time.
    """
    deadline = time.monotonic() + SERVER_TIMEOUT_SECS
    while not stop:
        try:
            return ask()
        except TimeoutError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
    return None


def _worker_id() -> int:
    text = os.environ.get("SLURM_PROCID", "0")
    if not re.fullmatch("[0-9]{1,9}", text):
        raise ConfigError(f"SLURM_PROCID is {text!r}; expected an integer from 0 on.")
    return int(text)


def work(
    exp_dir: str,
    replay_address: str,
    num_cpus: Annotated[int, AtLeast(1)] = 1,
    env_timeout_secs: Annotated[float, AtLeast(1)] = 600.0,
    deterministic: bool = False,
    collects: bool = True,
    evaluates: bool = True,
    *,
    stop: StopFlag,
) -> int:
    """Runs the worker whose number is the variable SLURM_PROCID; returns the exit code.

    Args:
      exp_dir: Folder of the experiment.
      replay_address: host:port of the replay server.
      num_cpus: CPUs that this program may use.
      env_timeout_secs: Longest time of an env step.
      deterministic: Take turns with the learner; there is no other worker.
      collects: Collect experience; otherwise, the program is evaluator SLURM_PROCID.
      evaluates: Run greedy episodes; otherwise, the run's evaluators do.
      stop: Ends the worker when true.
    """
    tf.config.threading.set_intra_op_parallelism_threads(num_cpus)
    tf.config.threading.set_inter_op_parallelism_threads(num_cpus)
    return collect(
        exp_dir, replay_address, _worker_id(), env_timeout_secs, stop,
        deterministic, collects, evaluates,
    )  # fmt: skip


if __name__ == "__main__":
    run_program(work, sys.argv)
