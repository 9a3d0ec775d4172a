"""One train step: unpack a minibatch, add rewards, compute gradients, apply them."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.trajectories import policy_step, trajectory
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.agent import ActorCriticAgent
from tfagents_system.data.sample_reader import SampleReader
from tfagents_system.data.transition import Transition
from tfagents_system.rewards.signals import RewardSignals
from tfagents_system.rewards.streams import RewardStreams


@runtime_checkable
class GradientAgent(Protocol):
    """An agent that trains on our transitions and separates gradients from their application."""

    def gradients(self, transition: Transition) -> tuple[Any, tf_agent.LossInfo]:
        """Returns the gradients and losses of a minibatch; changes no variable."""

    def apply_gradients(self, gradients: Any) -> None:
        """Applies gradients to the variables, and increments the train step."""


class TrainStep:
    """Trains an agent on one packed minibatch; called during tracing."""

    def __init__(
        self,
        agent: tf_agent.TFAgent,
        reader: SampleReader,
        reward_signals: RewardSignals | RewardStreams | None = None,
    ):
        """Takes a GradientAgent, or any agent whose `train` applies its gradients itself."""
        self._agent = agent
        self._reader = reader
        self._reward_signals = reward_signals

    @property
    def variables(self) -> list[tf.Variable]:
        """All variables that training changes."""
        of_signals = self._reward_signals.variables if self._reward_signals else ()
        return [*self._agent.variables, *of_signals]

    def __call__(self, columns: Sequence[tf.Tensor]) -> dict[str, tf.Tensor]:
        """Does a train step; returns the agent's scalar metrics before its update."""
        # Without this, ops that need no data, such as counting, would run even without data.
        with tf.control_dependencies(columns):
            transition = self._reader.unpack(columns)
            of_signals: Mapping[str, tf.Tensor] = {}
            if self._reward_signals is not None:
                transition, of_signals = self._reward_signals(transition)
            if isinstance(self._agent, GradientAgent):
                gradients, loss_info = self._agent.gradients(transition)
                self._agent.apply_gradients(gradients)
            else:
                loss_info = self._agent.train(as_experience(transition))
            if isinstance(self._agent, ActorCriticAgent) and self._agent.cloning is not None:
                of_signals = {**of_signals, "cloning_loss": self._agent.cloning()}
        loss = {"loss": tf.cast(loss_info.loss, tf.float32)}
        return loss | _scalars(loss_info.extra) | _scalars(of_signals)


def as_experience(transition: Transition) -> trajectory.Transition:
    """Converts a batch of replayed transitions to the form for stock agents of TF-Agents.

    Only `next_time_step.discount` tells whether an episode ended; the next step's type is MID.
    The extras are the action step's info.
    """
    step_type = tf.cast(transition.step_type, tf.int32)
    ones = tf.ones_like(transition.reward)
    time_step = ts.TimeStep(step_type, tf.zeros_like(ones), ones, transition.observation)
    next_time_step = ts.TimeStep(
        tf.fill(tf.shape(step_type), ts.StepType.MID),
        transition.reward,
        transition.discount,
        transition.next_observation,
    )
    return trajectory.Transition(
        time_step,
        policy_step.PolicyStep(transition.action, info=transition.extras),
        next_time_step,
    )


def _scalars(extra: Any) -> dict[str, tf.Tensor]:
    """Returns the scalars of an agent's loss info, which may be a dict, a NamedTuple or empty."""
    fields = extra._asdict() if hasattr(extra, "_asdict") else extra
    if not isinstance(fields, Mapping):
        return {}
    return {
        name: tf.cast(value, tf.float32)
        for name, value in fields.items()
        if tf.is_tensor(value) and value.shape.rank == 0
    }
