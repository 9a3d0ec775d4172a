"""Builds the agent that a TrainParams describes."""

import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.environments import py_environment
from tf_agents.specs import tensor_spec

from tfagents_system.agents.agent import ActorCriticAgent
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.hooks import call_method
from tfagents_system.core.settings.params import Params
from tfagents_system.core.settings.training_settings import TrainingSettings


def make_agent(
    params: Params, environment: py_environment.PyEnvironment
) -> tuple[tf_agent.TFAgent, tf.Variable]:
    """Builds the agent for the specs of `environment`; returns it and its train step (int64 []).

    Raises:
      ConfigError: If `agent_ctor` does not return a TF-Agents agent.
    """
    train_step = tf.Variable(0, dtype=tf.int64, trainable=False, name="train_step")
    time_step_spec = tensor_spec.from_spec(environment.time_step_spec())
    action_spec = tensor_spec.from_spec(environment.action_spec())
    agent = call_method(
        params.agent_ctor, train_step, time_step_spec.observation, action_spec, time_step_spec,
        is_patient=True,
    )  # fmt: skip
    if not isinstance(agent, tf_agent.TFAgent):
        raise ConfigError(
            f"TrainParams.agent_ctor returned a {type(agent).__name__}; expected a TF-Agents agent."
        )
    return agent, train_step


def stored_state_spec(agent: tf_agent.TFAgent, settings: TrainingSettings) -> list[tf.TensorSpec]:
    """Returns the specs of the collect policy's state if `stored_state` is set, else none.

    Raises:
      ConfigError: If the policy has no state.
    """
    if not settings.stored_state:
        return []
    parts = tf.nest.flatten(agent.collect_policy.policy_state_spec)
    if not parts:
        raise ConfigError(
            "TrainParams.stored_state is True, but the collect policy of the agent has no state; "
            "expected stored_state = False."
        )
    return parts


def scales_rewards(agent: tf_agent.TFAgent) -> bool:
    """Returns whether `agent` needs the return so far with each step, to scale rewards."""
    return isinstance(agent, ActorCriticAgent) and agent.networks.reward_scale is not None


def arithmetic_of(agent: tf_agent.TFAgent) -> str:
    """Returns the arithmetic of the matrix products of `agent`'s train steps on this host.

    For agents that are not built in, it is "float32": TensorFlow's own ops.

    Raises:
      ConfigError: If this host does not support `matmul_precision`.
    """
    return agent.arithmetic if isinstance(agent, ActorCriticAgent) else "float32"


def algorithm_of(agent: tf_agent.TFAgent) -> str:
    """Returns the algorithm's name in the table, or the class name of a user's agent."""
    return getattr(agent, "algorithm", type(agent).__name__)


def masks_padding(agent: tf_agent.TFAgent) -> bool:
    """Returns whether `agent.train` ignores padding: transitions whose step type is LAST.

    An agent declares this by an attribute `masks_padding`; stock agents would train on padding.
    """
    return getattr(agent, "masks_padding", False)
