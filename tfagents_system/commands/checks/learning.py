"""Builds all parts of the learner, and runs one train step on the environment's data.

Needs no replay server: items of a worker's adder are kept in memory.
"""

import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tf_agents.environments import py_environment
from tf_agents.trajectories import time_step as ts

from tfagents_system.assembly import Assembly
from tfagents_system.collection.rollouts import run_episode
from tfagents_system.commands.checks.local_learner import make_learner, num_items_per_step
from tfagents_system.commands.checks.rows import Row, explained
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.params import Params
from tfagents_system.core.state.incarnation import Fence
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.learning.learner import DivergedError
from tfagents_system.learning.policy_export import PolicyExporter
from tfagents_system.learning.whole_buffer import check_fits
from tfagents_system.policies.acting import ActingPolicy
from tfagents_system.services.adder import Adder
from tfagents_system.services.item_recorder import ItemRecorder
from tfagents_system.services.replay import experience_table
from tfagents_system.services.replay_limits import ReplayLimits


def check_learning(
    params: Params,
    made: Assembly,
    environment: py_environment.PyEnvironment,
    policy: ActingPolicy,
    is_deterministic: bool = False,
) -> Row:
    """Exports the policies and does one train step, which changes the agent.

    Args:
      params: The user's TrainParams.
      made: Made from `params`.
      environment: Environment for collection.
      policy: Policy for collection.
      is_deterministic: Whether the learner would keep the whole replay buffer.
    """
    horizon = params.env_config["horizon"]
    what = "the exported policy"
    try:
        _export(made)
        what = "the replay buffer"
        limits = ReplayLimits.from_settings(params, horizon, made.layout)
        experience_table(limits, made.columns)
        if is_deterministic:
            check_fits(made.reader, limits.capacity)
        items, num_steps = _collect(made, environment, policy, horizon)
        what = "a train step"
        picked = [items[k % len(items)] for k in range(num_items_per_step(params, made.layout))]
        batch = [np.stack(columns) for columns in zip(*picked, strict=True)]
        before = int(made.train_step.numpy())
        if make_learner(params, made, batch).run(1) is None:
            raise ConfigError("the learner found no data")
        if int(made.train_step.numpy()) == before:
            raise ConfigError("the agent of TrainParams.agent_ctor does not count its train steps")
    except DivergedError as error:
        advice = "Scale rewards and observations to about 1."
        return Row("learning", "WRONG", f"a train step is not finite: {error}", advice)
    except Exception as error:
        return Row(
            "learning", "WRONG", f"{what}: {explained(error)}", "Training would end at once."
        )
    return Row("learning", "ok", f"policies exported; a train step with {num_steps} env steps done")


def _export(made: Assembly) -> None:
    """Writes a run's SavedModels to a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="sac_check_") as folder:
        paths = ExperimentPaths(pathlib.Path(folder))
        PolicyExporter(paths, made.agent, made.train_step, Fence.of_core(paths, 0)).prepare()


def _collect(
    made: Assembly, environment: py_environment.PyEnvironment, policy: ActingPolicy, horizon: int
) -> tuple[Sequence[Sequence[NDArray[Any]]], int]:
    """Collects some items, from as many episodes as needed; returns them and their env steps."""
    recorder, num_steps = ItemRecorder(), 0
    num_wanted = 2 * made.layout.rows
    adder = Adder(recorder, made.codec, made.layout, log=lambda line: None)

    def observe(
        time_step: ts.TimeStep, action: Any, next_time_step: ts.TimeStep, state: Any
    ) -> bool:
        nonlocal num_steps
        num_steps += 1
        if not adder.add(time_step, action, next_time_step, state):
            raise ConfigError(f"a step is rejected: {next(iter(adder.rejected))}")
        return num_steps < num_wanted

    while num_steps < num_wanted:
        run_episode(environment, policy, horizon, observe)
        adder.end_episode()
    adder.send()
    if not recorder.items:
        raise ConfigError(f"no episode was as long as {made.layout}")
    return recorder.items, num_steps
