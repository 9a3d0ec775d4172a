"""Checks the networks that hooks of a TrainParams return."""

from collections.abc import Collection, Mapping
from typing import Any

import tensorflow as tf
from tf_agents.networks import network
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.networks.heads import ActionHead


def own_network(hook: str, made: Any) -> network.Network:
    """Returns `made`, the result of `hook`; raises ConfigError unless it is a TF-Agents network."""
    if isinstance(made, network.Network):
        return made
    raise ConfigError(
        f"TrainParams.{hook} returned a {type(made).__name__}; expected a network of TF-Agents "
        "(tf_agents.networks.network.Network). Layers of Keras become one by "
        "tf_agents.networks.sequential.Sequential, or in `call` of a class of your own."
    )


def check_actor(actor: network.Network, head: ActionHead) -> None:
    """Raises ConfigError if integers of the action have a distribution that `head` does not know.

    The variables of `actor` exist.
    """
    if head.num_values > 1:
        inputs = tensor_spec.zero_spec_nest(actor.input_tensor_spec, outer_dims=(1,))
        step_type = tf.fill([1], ts.StepType.FIRST)
        state = actor.get_initial_state(batch_size=1)
        distribution = actor(inputs, step_type=step_type, network_state=state)[0]
        head.masked(distribution, tf.ones([1, head.num_values]))


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
