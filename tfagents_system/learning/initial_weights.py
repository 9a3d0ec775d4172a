"""Starts an agent with the weights of another experiment."""

import pathlib
import re
from collections.abc import Collection
from typing import Any

import tensorflow as tf
from tf_agents.agents import tf_agent

from tfagents_system.agents.agent import ActorCriticAgent
from tfagents_system.agents.construction import algorithm_of
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.files import read_json
from tfagents_system.core.state.generations import MANIFEST
from tfagents_system.learning.checkpoints import DEPENDENCIES, LEARNER_PREFIX, OF_SIGNALS, shapes_of
from tfagents_system.learning.policy_export import restore_policy
from tfagents_system.networks.critic_networks import STREAM_LAYER
from tfagents_system.rewards.streams import RewardStreams


def initialize(
    agent: tf_agent.TFAgent, folder: pathlib.Path, streams: RewardStreams | None = None
) -> str:
    """Assigns the weights in `folder`; returns a line that describes them.

    `folder` has a checkpoint generation, for all networks and single variables of the agent, or a
    policy checkpoint, for the actor. Optimizers and counters stay unchanged. Those of
    `streams` that the other experiment also had get its values and signals; new ones start fresh.

    Raises:
      ConfigError: If the weights are of other networks, or cannot be read.
    """
    if not (folder / MANIFEST).exists():
        if isinstance(agent, ActorCriticAgent) and agent.networks.actor_normalizer is not None:
            raise ConfigError(
                f"{folder} is a policy, whose normalization of observations lacks those that only "
                "critics see (critic_observations). Start from a checkpoint of all networks, EXP "
                "or EXP:0000050000; an experiment of sac clone has none, so it cannot be continued "
                "with both normalize_observations and critic_observations."
            )
        restore_policy(folder, agent.policy.variables())
        if isinstance(agent, ActorCriticAgent):
            agent.networks.copy_to_targets()  # else they would stay random
        return "The actor starts with the weights of another experiment, critics with random ones."
    saved = read_json(folder / MANIFEST)[DEPENDENCIES]
    before = {"agent": algorithm_of(agent), **shapes_of(agent.variables)}
    shapes = {n: s for n, s in saved["variables"].items() if not n.startswith(OF_SIGNALS)}
    now = {"agent": saved["agent"], **shapes}
    differences = sorted(name for name in before | now if before.get(name) != now.get(name))
    fresh = [name for name in differences if _is_of_one_stream(name, before, now)]
    if differences := [name for name in differences if name not in fresh]:
        first = differences[0]
        raise ConfigError(
            f"The weights to start from are of other networks: {first} is {now.get(first)} there "
            f"and {before.get(first)} here ({len(differences)} differences). Make the networks of "
            "the params file equal, or start without SAC_INITIALIZE_FROM."
        )
    checkpoint = tf.train.Checkpoint(agent=tf.train.Checkpoint(**_learned_parts(agent)))
    try:
        status = checkpoint.read(str(folder / LEARNER_PREFIX))
        if not fresh:
            status.assert_existing_objects_matched()
        status.expect_partial()  # its optimizers and train step are not used
        known = _take_over_signals(streams, folder) if streams is not None else []
    except (tf.errors.OpError, RuntimeError, AssertionError) as error:
        raise ConfigError(f"{folder} cannot be read: {error}") from error
    text = "All networks and the temperature start with the weights of another experiment"
    if streams is None:
        return f"{text}."
    signals = ", ".join(known) or "no signal"
    return f"{text}, and of the learned signals {signals}; new streams start fresh."


def _is_of_one_stream(name: str, before: Collection[str], now: Collection[str]) -> bool:
    """Returns whether only one of two agents has the stream with a last layer of this name."""
    is_last_layer = re.search(rf"/(q_value|{STREAM_LAYER}\w+)/", name) is not None
    return is_last_layer and (name not in before or name not in now)


def _take_over_signals(streams: RewardStreams, folder: pathlib.Path) -> list[str]:
    """Assigns the variables of the learned signals in `folder`; returns the signals' names."""
    prefix = str(folder / LEARNER_PREFIX)
    saved = list(tf.train.load_checkpoint(prefix).get_variable_to_shape_map())
    known = {
        name: signal
        for name, signal in streams.signals.items()
        if any(key.startswith(f"{OF_SIGNALS}signals/{name}/") for key in saved)
    }
    of_signals = tf.train.Checkpoint(signals=tf.train.Checkpoint(**known))
    checkpoint = tf.train.Checkpoint(reward_signals=of_signals)
    checkpoint.read(prefix).assert_existing_objects_matched().expect_partial()
    return list(known)


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
