"""Soft Actor-Critic with twin critics and a learned temperature.

Source: Haarnoja et al. 2018, Soft Actor-Critic Algorithms and Applications, arXiv:1812.05905. With
a state-value network: Haarnoja et al. 2018, Soft Actor-Critic: Off-Policy Maximum Entropy Deep
Reinforcement Learning with a Stochastic Actor, arXiv:1801.01290.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.networks import network
from tf_agents.policies import actor_policy, greedy_policy
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory

from tfagents_system.agents.experience import initial_state, valid_of
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
from tfagents_system.networks.encoders import ActionScaling


class SacInfo(NamedTuple):
    """Scalars of one train step, before its update; means over the valid transitions."""

    critic_loss: tf.Tensor
    actor_loss: tf.Tensor
    alpha_loss: tf.Tensor
    alpha: tf.Tensor
    entropy: tf.Tensor  # -E[log pi(a|s)], nats, of actions scaled to [-1, 1]
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
    critics_moments: Sequence = ()  # of the minibatch, of networks that normalize by them
    actor_moments: Sequence = ()


class CriticsBranch(NamedTuple):
    """What a train step of the critics gives."""

    loss: tf.Tensor
    q_values: tf.Tensor  # [B], of the first critic at the replayed actions
    td_target: tf.Tensor  # [B]
    gradients: list[list[tf.Tensor]]  # by the variables of each, and by features
    moments: Sequence = ()


class _ActorBranch(NamedTuple):
    """What a train step of the actor and the temperature gives; zeros in the others."""

    actor_loss: tf.Tensor  # times `policy_delay`, so that means over train steps are right
    alpha_loss: tf.Tensor  # likewise, as the entropy
    entropy: tf.Tensor
    soft_values: tf.Tensor  # [B], of the states, by the critics
    actor_gradients: list[list[tf.Tensor]]
    alpha_gradient: tf.Tensor
    moments: Sequence


class SacAgent(OffPolicyAgent):
    """SAC, with the entropy temperature learned or fixed; see OffPolicyAgent.

    What judges actions can be overridden, `_judged`, `td_target`, `_critics_branch`, and how the
    actor is called in its own train step, `_sample_to_train`.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec,
        actor_network: network.Network,
        critic_network: network.Network,
        *,
        num_critics: int = 2,
        alpha_learning_rate: float = 3e-4,
        initial_log_alpha: float = 1.0,
        learn_alpha: bool = True,
        target_entropy: float | None = None,
        summarizer: network.Network | None = None,
        **kwargs,
    ):
        """Creates the critics.

        Log-probabilities and entropies are those of actions scaled to [-1, 1], so that neither
        alpha nor the value of staying alive depends on the unit of the action.

        Args:
          time_step_spec: See OffPolicyAgent, also for `kwargs`.
          action_spec: One bounded float32 vector.
          actor_network: (observation, step_type, network_state) -> (distribution, state).
          critic_network: ((observation, action), step_type, network_state) -> (Q, state).
          num_critics: See OffPolicyAgent.
          alpha_learning_rate: Adam step size of log alpha.
          initial_log_alpha: Initial log of the entropy temperature.
          learn_alpha: Whether to adjust it.
          target_entropy: In nats; None is -A for A action dimensions, the authors' choice.
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
            num_critics=num_critics,
            summarizer=summarizer,
            policy=greedy_policy.GreedyPolicy(policy),
            collect_policy=policy,
            **kwargs,
        )
        self.log_alpha = tf.Variable(initial_log_alpha, dtype=tf.float32, name="log_alpha")
        self._learns_alpha = learn_alpha
        num_actions = self.action_spec.shape[0]
        self.target_entropy = -num_actions if target_entropy is None else target_entropy
        self._log_volume = ActionScaling(self.action_spec).log_volume
        self.alpha_optimizer = make_adam(alpha_learning_rate, [self.log_alpha], self.adam_beta_1)
        self._initialize()

    def apply_gradients(self, gradients: SacGradients) -> None:
        """Clips and applies `gradients`, counts the train step and updates the targets."""
        self._apply(self.critic_optimizer, gradients.critics, self._critic_variables)
        is_due = self._is_step_of_actor()
        self.train_step_counter.assign_add(1)

        def update_actor_and_temperature():
            self._apply(self.actor_optimizer, gradients.actor, [self.actor.trainable_variables])
            self._update_actor_moments(gradients.actor_moments)
            if self._learns_alpha:
                self.alpha_optimizer.apply_gradients([(gradients.log_alpha, self.log_alpha)])

        self._if(is_due, update_actor_and_temperature, lambda: None)
        self._update_targets()

    def _update_actor_moments(self, moments: Sequence) -> None:
        """Does nothing: the actor does not normalize."""

    def _gradients(self, experience):
        alpha = tf.exp(self.log_alpha)
        valid, state = valid_of(experience, self._burn_in_len), initial_state(experience)
        # First, because ops wait for a core in this order, and the actor's chain is the longest.
        actor = self._if(
            self._is_step_of_actor(),
            lambda: self._actor_branch(experience.time_step, state, alpha, valid),
            lambda: self._no_actor_branch(valid),
        )
        critics = self._critics_branch(experience, alpha, valid)
        value_losses, value_gradients = self._state_value_branch(
            experience.time_step, actor.soft_values, valid
        )
        info = SacInfo(
            critic_loss=critics.loss,
            actor_loss=actor.actor_loss,
            alpha_loss=actor.alpha_loss,
            alpha=alpha,
            entropy=actor.entropy,
            q_value=valid_mean(critics.q_values, valid),
            td_target=valid_mean(critics.td_target, valid),
        )
        if value_losses:
            info = StateValueSacInfo(*info, *value_losses)
        loss = critics.loss + actor.actor_loss + actor.alpha_loss + sum(value_losses)
        gradients = SacGradients(
            critics.gradients + value_gradients,
            actor.actor_gradients,
            actor.alpha_gradient,
            critics.moments,
            actor.moments,
        )
        return gradients, tf_agent.LossInfo(loss, info)

    def _actor_branch(self, time_steps, state, alpha, valid) -> _ActorBranch:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            variables = [self.actor.trainable_variables]
            tape.watch(variables)
            actions, log_prob, moments = self._sample_to_train(time_steps, state)
            q_values = self._judged(self._values(self.critics, time_steps, actions))
            loss = actor_loss(log_prob, q_values, alpha, valid)
        gradients = tape.gradient(loss, variables)
        log_prob = tf.stop_gradient(log_prob)
        return _ActorBranch(
            actor_loss=self.policy_delay * loss,
            alpha_loss=self.policy_delay
            * alpha_loss(self.log_alpha, log_prob, self.target_entropy, valid),
            entropy=-self.policy_delay * valid_mean(log_prob, valid),
            soft_values=state_value_target(q_values, log_prob, alpha),
            actor_gradients=gradients,
            alpha_gradient=-valid_mean(log_prob + self.target_entropy, valid),
            moments=moments,
        )

    def _no_actor_branch(self, valid) -> _ActorBranch:
        zero = tf.constant(0.0)
        gradients = [[tf.zeros_like(variable) for variable in self.actor.trainable_variables]]
        moments = self._no_moments()
        return _ActorBranch(zero, zero, zero, tf.zeros_like(valid), gradients, zero, moments)

    def _sample_to_train(self, time_steps, state):
        """Returns actions, their log-probabilities and the moments that they were normalized by."""
        return *self._sample(time_steps, state), self._no_moments()

    def _no_moments(self) -> Sequence:
        return ()

    def _judged(self, values) -> list[tf.Tensor]:
        """Returns what the actor maximizes the smallest of, [B] each, of the critics' values."""
        return values

    def _critics_branch(self, experience, alpha, valid) -> CriticsBranch:
        td_target = tf.stop_gradient(self.td_target(experience, alpha))
        loss, q_values, gradients = self._critic_branch(critic_loss, experience, td_target, valid)
        return CriticsBranch(loss, q_values[0], td_target, gradients)

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
        next_actions, next_log_prob = self._sample(next_steps, initial_state(experience))
        with self._exact_values():
            next_q_values = self._values(self.target_critics, next_steps, next_actions)
        next_log_prob, *next_q_values = self._of_next_steps([next_log_prob, *next_q_values])
        return soft_td_target(
            step.reward, step.discount, self.gamma, next_q_values, next_log_prob, alpha
        )

    def _sample(self, time_steps, state=()):
        distribution, _ = self.actor(  # stock networks insist on a network_state
            time_steps.observation, step_type=time_steps.step_type, network_state=state
        )
        return self._drawn(distribution)

    def _drawn(self, distribution):
        """Returns actions and their log-probabilities when scaled to [-1, 1]."""
        if isinstance(distribution, SquashedGaussian):
            actions, log_prob = distribution.experimental_sample_and_log_prob()
        else:  # TF-Agents' own distributions have no joint method
            actions = distribution.sample()
            log_prob = distribution.log_prob(actions)
        return actions, log_prob + self._log_volume
