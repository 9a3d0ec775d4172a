"""Twin Delayed DDPG; with one critic, no delay and no target noise it is DDPG.

Source: Fujimoto et al. 2018, Addressing Function Approximation Error in Actor-Critic Methods,
arXiv:1802.09477.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.networks import network
from tf_agents.policies import actor_policy
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory

from tfagents_system.agents.experience import initial_state, valid_of
from tfagents_system.agents.exploration import NoisyPolicy
from tfagents_system.agents.off_policy_agent import OffPolicyAgent
from tfagents_system.agents.sac_losses import valid_mean
from tfagents_system.agents.td3_losses import actor_loss, critic_loss, smoothed_action, td_target
from tfagents_system.networks.actor_networks import acting_network
from tfagents_system.networks.encoders import action_center_and_magnitude


class Td3Info(NamedTuple):
    """Scalars of one train step, before its update; means over the valid transitions."""

    critic_loss: tf.Tensor
    actor_loss: tf.Tensor  # times `policy_delay` in a step of the actor, 0 in the others
    q_value: tf.Tensor  # first critic at the replayed actions
    td_target: tf.Tensor


class Td3Gradients(NamedTuple):
    """Gradients of the losses by the variables of each network, in the order of its variables."""

    critics: list[list[tf.Tensor]]  # of each
    actor: list[list[tf.Tensor]]  # of the one; zeros in a step that is not the actor's


class Td3Agent(OffPolicyAgent):
    """TD3 or DDPG; see OffPolicyAgent."""

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec,
        actor_network: network.Network,
        critic_network: network.Network,
        *,
        num_critics: int = 2,
        policy_delay: int = 2,
        target_noise_std: float = 0.2,
        target_noise_clip: float = 0.5,
        exploration_noise_std: float = 0.1,
        is_ornstein_uhlenbeck: bool = False,
        summarizer: network.Network | None = None,
        **kwargs,
    ):
        """Creates the target actor as a copy of `actor_network`.

        Args:
          time_step_spec: See OffPolicyAgent, also for `kwargs`.
          action_spec: One bounded float32 vector.
          actor_network: (observation, step_type, network_state) -> (action, state).
          critic_network: ((observation, action), step_type, network_state) -> (Q, state).
          num_critics: 2, or 1 for DDPG.
          policy_delay: Every so many train steps the actor and all targets are updated.
          target_noise_std: Of the target actions, scaled to [-1, 1], as the two that follow.
          target_noise_clip: Largest size of that noise.
          exploration_noise_std: See NoisyPolicy.
          is_ornstein_uhlenbeck: See NoisyPolicy.
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
            policy_delay=policy_delay,
            summarizer=summarizer,
            policy=policy,
            collect_policy=NoisyPolicy(policy, exploration_noise_std, is_ornstein_uhlenbeck),
            **kwargs,
        )
        self.target_actor = actor_network.copy(name="target_actor")
        self.target_actor.create_variables(
            summarizer.features_spec if summarizer else self.time_step_spec.observation
        )
        center, self._magnitude = action_center_and_magnitude(self.action_spec)
        self._low, self._high = center - self._magnitude, center + self._magnitude
        self._target_noise_std = target_noise_std * self._magnitude
        self._target_noise_clip = target_noise_clip * self._magnitude
        self._initialize()

    def apply_gradients(self, gradients: Td3Gradients) -> None:
        """Clips and applies `gradients`, counts the train step; may update actor and targets."""
        self._apply(self.critic_optimizer, gradients.critics, self._critic_variables)
        is_due = self._is_step_of_actor()
        self.train_step_counter.assign_add(1)

        def update_actor_and_targets():
            self._apply(self.actor_optimizer, gradients.actor, [self.actor.trainable_variables])
            self._update_targets()

        self._if(is_due, update_actor_and_targets, lambda: None)

    def _pairs_with_targets(self):
        return [*super()._pairs_with_targets(), (self.actor, self.target_actor)]

    def _gradients(self, experience):
        valid, state = valid_of(experience, self._burn_in_len), initial_state(experience)
        actor_variables = self.actor.trainable_variables

        def of_actor():
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(actor_variables)
                (q_value,) = self._values(
                    self.critics[:1],
                    experience.time_step,
                    self._act(self.actor, experience.time_step, state),
                )
                loss = actor_loss(q_value, valid)
            return self.policy_delay * loss, tape.gradient(loss, actor_variables)

        def nothing():
            return tf.constant(0.0), [tf.zeros_like(variable) for variable in actor_variables]

        # First, because ops wait for a core in this order, and the actor's chain is the longest.
        actor_loss_value, actor_gradients = self._if(self._is_step_of_actor(), of_actor, nothing)

        target = tf.stop_gradient(self.td_target(experience))
        critic_loss_value, q_values, critic_gradients = self._critic_branch(
            critic_loss, experience, target, valid
        )
        info = Td3Info(
            critic_loss=critic_loss_value,
            actor_loss=actor_loss_value,
            q_value=valid_mean(q_values[0], valid),
            td_target=valid_mean(target, valid),
        )
        loss_info = tf_agent.LossInfo(critic_loss_value + actor_loss_value, info)
        return Td3Gradients(critic_gradients, [actor_gradients]), loss_info

    def td_target(self, experience: trajectory.Transition) -> tf.Tensor:
        """Returns the targets of the critics, [B] or [B, T]."""
        next_steps = self._next_steps(experience)
        actions = self._act(self.target_actor, next_steps, initial_state(experience))
        if np.any(self._target_noise_std):
            noise = self._target_noise_std * tf.random.normal(tf.shape(actions))
            actions = smoothed_action(
                actions, noise, self._target_noise_clip, self._low, self._high
            )
        with self._exact_values():
            next_q_values = self._values(self.target_critics, next_steps, actions)
        step = experience.next_time_step
        next_q_values = self._of_next_steps(next_q_values)
        return td_target(step.reward, step.discount, self.gamma, next_q_values)

    def _act(self, actor, time_steps, state):
        actions, _ = actor(
            time_steps.observation, step_type=time_steps.step_type, network_state=state
        )
        return actions
