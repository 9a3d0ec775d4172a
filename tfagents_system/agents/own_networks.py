"""Checks the networks that hooks of a TrainParams return, and copies them."""

import itertools
from collections.abc import Collection, Mapping
from typing import Any

import tensorflow as tf
import tensorflow_probability as tfp
from tf_agents.networks import network
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.agent_settings import AgentParams
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.nests import Nest
from tfagents_system.networks.actor_networks import SummarizingActorNetwork
from tfagents_system.networks.critic_networks import SummarizingCriticNetwork
from tfagents_system.networks.heads import ActionHead


def own_network(hook: str, made: Any, settings: AgentParams) -> network.Network:
    """Returns `made`, the result of `hook`; raises ConfigError if it does not fit `settings`.

    It must be a TF-Agents network, and may have a state only where that is kept.
    """
    if not isinstance(made, network.Network):
        raise ConfigError(
            f"TrainParams.{hook} returned a {type(made).__name__}; expected a network of TF-Agents "
            "(tf_agents.networks.network.Network). Layers of Keras become one by "
            "tf_agents.networks.sequential.Sequential, or in `call` of a class of your own."
        )
    is_summarizer = hook == "summarizer_ctor"
    if is_summarizer and not hasattr(made, "features_spec"):
        raise ConfigError(
            f"TrainParams.{hook} returned a {type(made).__name__} without features_spec; expected "
            "a network whose attribute features_spec is the spec of its features, without batch "
            "axis."
        )
    reads_features = settings.share_summarizer and not is_summarizer
    if tf.nest.flatten(made.state_spec) and (reads_features or not settings.recurrent):
        name = "share_summarizer" if reads_features else "recurrent"
        raise ConfigError(
            f"TrainParams.{hook} returned a network with a state, {made.state_spec}, and {name} is "
            f"{reads_features}; expected {name} = {not reads_features}, or a network without one "
            "(state_spec = ())."
        )
    return made


def copy_of(hook: str, net: network.Network, name: str) -> network.Network:
    """Returns a copy of the result of `hook`; raises ConfigError if its constructor makes none."""
    try:
        return net.copy(name=name)
    except TypeError as error:
        raise ConfigError(
            f"TrainParams.{hook} returned a {type(net).__name__}, which cannot be copied: {error}. "
            "Expected a constructor that takes `name`, and other arguments that can be used again."
        ) from error


def check_separate(hook: str, *networks: network.Network) -> None:
    """Raises ConfigError if two of `networks`, the result of `hook` and its copies, train the same.

    A copy is made by the same constructor with the same arguments, and so with the layers in them.
    """
    if isinstance(networks[0], SummarizingActorNetwork | SummarizingCriticNetwork):
        check_separate("summarizer_ctor", *(net.summarizer for net in networks))
    for one, other in itertools.combinations(networks, 2):
        names = {variable.ref(): variable.name for variable in one.trainable_variables}
        shared = [names[v.ref()] for v in other.trainable_variables if v.ref() in names]
        if shared:
            raise ConfigError(
                f"TrainParams.{hook} returned a {type(one).__name__} that shares variables with "
                f"its copies: {one.name} and {other.name} both train {', '.join(shared)}. A copy "
                "is made by the same constructor with the same arguments; expected one that makes "
                "the layers in __init__, instead of taking them as arguments."
            )


def check_actor(
    actor: network.Network, observation_spec: Nest, head: ActionHead, is_deterministic: bool
) -> None:
    """Raises ConfigError unless the actor returns what its losses need.

    These are actions if `is_deterministic`, or else distributions that `head` knows.

    Args:
      actor: Its variables exist.
      observation_spec: The spec of what it sees, without batch axis.
      head: Head for the environment's action.
      is_deterministic: Whether the algorithm's policy is.
    """
    observation = tensor_spec.zero_spec_nest(observation_spec, outer_dims=(1,))
    step_type = tf.fill([1], ts.StepType.FIRST)
    state = actor.get_initial_state(batch_size=1)
    output = actor(observation, step_type=step_type, network_state=state)[0]
    for leaf in tf.nest.flatten(output):
        is_distribution = isinstance(leaf, tfp.distributions.Distribution)
        if is_distribution is is_deterministic:
            found = f"a {type(leaf).__name__}" if is_distribution else "actions"
            expected = "actions" if is_deterministic else "a distribution over actions"
            policy = "deterministic" if is_deterministic else "stochastic"
            raise ConfigError(
                f"TrainParams.actor_ctor returned a network of {found}; expected one of "
                f"{expected}, because this algorithm has a {policy} policy."
            )
    if head.num_values > 1:
        head.masked(output, tf.ones([1, head.num_values]))


def check_critic(
    values: Any, head: ActionHead, num_quantiles: int | None, streams: Collection[str]
) -> None:
    """Raises ConfigError unless the values of a critic have the shapes that its losses need.

    Other shapes would silently give wrong losses: [B, 1] values less [B] targets are [B, B].

    Args:
      values: Specs of the critic's output, without batch axis.
      head: Head for the environment's action.
      num_quantiles: Number of quantiles of the return; None: the critic estimates Q.
      streams: Names of the reward streams; none: the critic has values of one.
    """
    if streams:
        found = sorted(values) if isinstance(values, Mapping) else "one Q"
        if found != sorted(streams):
            raise ConfigError(
                f"TrainParams.critic_ctor returned a network of {found}; expected one of a dict "
                f"of Q with the keys of reward_signals, {sorted(streams)}."
            )
    if num_quantiles is not None:
        expected, meaning = [num_quantiles], "the tqc_quantiles of each env step's return"
    elif head.num_values > 1:
        expected, meaning = [head.num_values], "of each env step Q of all integers of the action"
    else:
        expected, meaning = [], "one Q of each env step"
    for name, of_one in values.items() if streams else [("", values)]:
        _check_shape("critic_ctor", of_one, expected, meaning, f" for {name!r}" if name else "")


def check_state_value(value: Any) -> None:
    """Raises ConfigError unless the state-value network returns one V; see `check_critic`."""
    _check_shape("state_value_ctor", value, [], "one V of each env step")


def _check_shape(hook: str, spec: Any, expected: list[int], meaning: str, of: str = "") -> None:
    shape = getattr(spec, "shape", None)
    if shape is not None and shape.rank is not None and shape.as_list() == expected:
        return
    found = f"a {_kind(spec)}" if shape is None else f"shape {_with_batch(list(shape))}"
    remedy = ""
    if shape is not None and list(shape) == [*expected, 1]:
        remedy = " Remove its last axis: tf.squeeze(values, axis=-1)."
    raise ConfigError(
        f"TrainParams.{hook} returned a network of {found}{of}; expected "
        f"{_with_batch(expected)}, with B env steps: {meaning}.{remedy}"
    )


def _kind(spec: Any) -> str:
    return "dict" if isinstance(spec, Mapping) else type(spec).__name__


def _with_batch(shape: list[Any]) -> str:
    return f"[{', '.join(['B', *map(str, shape)])}]"
