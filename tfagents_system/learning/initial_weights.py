"""Starts an agent with the weights of another experiment."""

import pathlib
from typing import Any

import tensorflow as tf
from tf_agents.agents import tf_agent

from tfagents_system.agents.agent import ActorCriticAgent
from tfagents_system.agents.construction import algorithm_of
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.files import read_json
from tfagents_system.core.state.generations import MANIFEST
from tfagents_system.learning.checkpoints import DEPENDENCIES, LEARNER_PREFIX, shapes_of
from tfagents_system.learning.policy_export import restore_policy


def initialize(agent: tf_agent.TFAgent, folder: pathlib.Path) -> str:
    """Assigns the weights in `folder`; returns a line that describes them.

    `folder` has a checkpoint generation, for all networks and single variables of the agent, or a
    policy checkpoint, for the actor. Optimizers and counters stay unchanged.

    Raises:
      ConfigError: If the weights are of other networks, or cannot be read.
    """
    if not (folder / MANIFEST).exists():
        restore_policy(folder, agent.policy.variables())
        return "The actor starts with the weights of another experiment, critics with random ones."
    saved = read_json(folder / MANIFEST)[DEPENDENCIES]
    before = {"agent": algorithm_of(agent), **shapes_of(agent.variables)}
    now = {"agent": saved["agent"], **saved["variables"]}
    if differences := sorted(name for name in before | now if before.get(name) != now.get(name)):
        first = differences[0]
        raise ConfigError(
            f"The weights to start from are of other networks: {first} is {now.get(first)} there "
            f"and {before.get(first)} here ({len(differences)} differences). Make the networks of "
            "the params file equal, or start without SAC_INITIALIZE_FROM."
        )
    checkpoint = tf.train.Checkpoint(agent=tf.train.Checkpoint(**_learned_parts(agent)))
    try:
        status = checkpoint.read(str(folder / LEARNER_PREFIX)).assert_existing_objects_matched()
        status.expect_partial()  # its optimizers and train step are not used
    except (tf.errors.OpError, RuntimeError, AssertionError) as error:
        raise ConfigError(f"{folder} cannot be read: {error}") from error
    return "All networks and the temperature start with the weights of another experiment."


def _learned_parts(agent: tf_agent.TFAgent) -> dict[str, Any]:
    """Returns the agent's networks and variables by attribute, without optimizers and counters."""
    if isinstance(agent, ActorCriticAgent):
        parts = {"networks": agent.networks}
        if agent.temperature is not None:
            parts["temperature"] = tf.train.Checkpoint(log_alpha=agent.temperature.log_alpha)
        return parts

    def is_learned(value: Any) -> bool:
        if isinstance(value, list):
            return bool(value) and all(map(is_learned, value))
        return isinstance(value, tf.keras.layers.Layer | tf.Variable)

    return {
        name: value
        for name, value in vars(agent).items()
        if is_learned(value) and value is not agent.train_step_counter
    }
