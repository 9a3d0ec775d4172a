"""Soft Actor-Critic with twin critics and a learned temperature.

Source: Haarnoja et al. 2018, Soft Actor-Critic Algorithms and Applications, arXiv:1812.05905. With
a state-value network: Haarnoja et al. 2018, Soft Actor-Critic: Off-Policy Maximum Entropy Deep
Reinforcement Learning with a Stochastic Actor, arXiv:1801.01290.
"""

import math
from typing import NamedTuple

import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.networks import network
from tf_agents.policies import actor_policy, greedy_policy
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory

from tfagents_system.agents.experience import valid_of
from tfagents_system.agents.off_policy_agent import OffPolicyAgent
from tfagents_system.agents.optimizers import make_adam
from tfagents_system.agents.sac_losses import (
    actor_loss,
    alpha_loss,
    bootstrapped_return,
    critic_loss,
    soft_td_target,
    state_value_loss,
    state_value_target,
    valid_mean,
)
from tfagents_system.networks.actor_networks import acting_network
from tfagents_system.networks.distributions import SquashedGaussian
from tfagents_system.networks.encoders import action_center_and_magnitude


class SacInfo(NamedTuple):
    """Scalars of one train step, before its update; means over the valid transitions."""

    critic_loss: tf.Tensor
    actor_loss: tf.Tensor
    alpha_loss: tf.Tensor
    alpha: tf.Tensor
    entropy: tf.Tensor  # -E[log pi(a|s)], nats
    q_value: tf.Tensor  # first critic at the replayed actions
    td_target: tf.Tensor


class StateValueSacInfo(NamedTuple):
    """The same of an agent with a state-value network, and that network's loss."""

    critic_loss: tf.Tensor
    actor_loss: tf.Tensor
    alpha_loss: tf.Tensor
    alpha: tf.Tensor
    entropy: tf.Tensor
    q_value: tf.Tensor
    td_target: tf.Tensor
    state_value_loss: tf.Tensor


class SacGradients(NamedTuple):
    """Gradients of the losses by the variables of each network, in the order of its variables."""

    critics: list[list[tf.Tensor]]  # of both, then of the state-value network, if there is one
    actor: list[list[tf.Tensor]]  # of the one
    log_alpha: tf.Tensor


class SacAgent(OffPolicyAgent):
    """SAC, with the entropy temperature learned or fixed; see OffPolicyAgent."""

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec,
        actor_network: network.Network,
        critic_network: network.Network,
        *,
        alpha_learning_rate: float = 3e-4,
        initial_log_alpha: float = 1.0,
        learn_alpha: bool = True,
        target_entropy: float | None = None,
        summarizer: network.Network | None = None,
        **kwargs,
    ):
        """Creates twin critics.

        The entropy target is expressed in the units of the environment's action.

        Args:
          time_step_spec: See OffPolicyAgent, also for `kwargs`.
          action_spec: One bounded float32 vector.
          actor_network: (observation, step_type, network_state) -> (distribution, state).
          critic_network: ((observation, action), step_type, network_state) -> (Q, state).
          alpha_learning_rate: Adam step size of log alpha.
          initial_log_alpha: Initial log of the entropy temperature.
          learn_alpha: Whether to adjust it.
          target_entropy: In nats, of actions scaled to [-1, 1]; None is -A for A action dimensions,
            the authors' choice.
          summarizer: See OffPolicyAgent.
          **kwargs: Go to OffPolicyAgent.
        """
        policy = actor_policy.ActorPolicy(
            time_step_spec, action_spec, acting_network(actor_network, summarizer)
        )
        super().__init__(
            time_step_spec,
            action_spec,
            actor_network,
            critic_network,
            num_critics=2,
            summarizer=summarizer,
            policy=greedy_policy.GreedyPolicy(policy),
            collect_policy=policy,
            **kwargs,
        )
        self.log_alpha = tf.Variable(initial_log_alpha, dtype=tf.float32, name="log_alpha")
        self._learns_alpha = learn_alpha
        _, magnitude = action_center_and_magnitude(self.action_spec)
        scaled = -len(magnitude) if target_entropy is None else target_entropy
        self.target_entropy = scaled + sum(math.log(m) for m in magnitude)
        self.alpha_optimizer = make_adam(alpha_learning_rate, [self.log_alpha])
        self._initialize()

    def apply_gradients(self, gradients: SacGradients) -> None:
        """Clips and applies `gradients`, counts the train step and updates the targets."""
        self._apply(self.critic_optimizer, gradients.critics, self._critic_variables)
        self._apply(self.actor_optimizer, gradients.actor, [self.actor.trainable_variables])
        if self._learns_alpha:
            self.alpha_optimizer.apply_gradients([(gradients.log_alpha, self.log_alpha)])
        self.train_step_counter.assign_add(1)
        self._update_targets()

    def _gradients(self, experience):
        alpha = tf.exp(self.log_alpha)
        valid = valid_of(experience)
        # First, because ops wait for a core in this order, and the actor's chain is the longest.
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            actor_variables = [self.actor.trainable_variables]
            tape.watch(actor_variables)
            actions, log_prob = self._sample(experience.time_step)
            actor_q_values = self._values(self.critics, experience.time_step, actions)
            actor_loss_value = actor_loss(log_prob, actor_q_values, alpha, valid)
        actor_gradients = tape.gradient(actor_loss_value, actor_variables)

        td_target = tf.stop_gradient(self.td_target(experience, alpha))
        critic_loss_value, q_values, critic_gradients = self._critic_branch(
            critic_loss, experience, td_target, valid
        )

        log_prob = tf.stop_gradient(log_prob)
        value_losses, value_gradients = self._state_value_branch(
            experience.time_step, state_value_target(actor_q_values, log_prob, alpha), valid
        )
        alpha_loss_value = alpha_loss(self.log_alpha, log_prob, self.target_entropy, valid)
        alpha_gradient = -valid_mean(log_prob + self.target_entropy, valid)
        info = SacInfo(
            critic_loss=critic_loss_value,
            actor_loss=actor_loss_value,
            alpha_loss=alpha_loss_value,
            alpha=alpha,
            entropy=-valid_mean(log_prob, valid),
            q_value=valid_mean(q_values[0], valid),
            td_target=valid_mean(td_target, valid),
        )
        if value_losses:
            info = StateValueSacInfo(*info, *value_losses)
        loss = critic_loss_value + actor_loss_value + alpha_loss_value + sum(value_losses)
        gradients = SacGradients(
            critic_gradients + value_gradients, actor_gradients, alpha_gradient
        )
        return gradients, tf_agent.LossInfo(loss, info)

    def _state_value_branch(self, time_steps, target, valid):
        """Returns the losses and the gradients of the state-value network, each a list of one.

        Both are empty if there is none.
        """
        losses, gradients = [], []
        for network_of_values in self.state_values:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(network_of_values.trainable_variables)
                with self._exact_values():
                    value, _ = network_of_values(time_steps.observation, network_state=())
                losses.append(state_value_loss(value, tf.stop_gradient(target), valid))
            gradients.append(tape.gradient(losses[0], network_of_values.trainable_variables))
        return losses, gradients

    def td_target(self, experience: trajectory.Transition, alpha: tf.Tensor) -> tf.Tensor:
        """Returns the targets of the critics, [B] or [B, T].

        They take the state's value, or actions drawn from the policy.
        """
        step = experience.next_time_step
        if self.target_state_values:
            with self._exact_values():
                value, _ = self.target_state_values[0](step.observation, network_state=())
            return bootstrapped_return(step.reward, step.discount, self.gamma, value)
        next_steps = self._next_steps(experience)
        next_actions, next_log_prob = self._sample(next_steps)
        with self._exact_values():
            next_q_values = self._values(self.target_critics, next_steps, next_actions)
        next_log_prob, *next_q_values = self._of_next_steps([next_log_prob, *next_q_values])
        return soft_td_target(
            step.reward,
            step.discount,
            self.gamma,
            next_q_values,
            next_log_prob,
            alpha,
        )

    def _sample(self, time_steps):
        distribution, _ = self.actor(  # stock networks insist on a network_state
            time_steps.observation, step_type=time_steps.step_type, network_state=()
        )
        if isinstance(distribution, SquashedGaussian):
            return distribution.experimental_sample_and_log_prob()
        actions = distribution.sample()  # TF-Agents' own distributions have no joint method
        return actions, distribution.log_prob(actions)
