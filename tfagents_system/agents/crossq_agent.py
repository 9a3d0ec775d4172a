"""CrossQ: SAC without target networks, whose networks have batch renormalization.

Source: Bhatt et al. 2024, CrossQ: Batch Normalization in Deep Reinforcement Learning for Greater
Sample Efficiency and Simplicity, arXiv:1902.05605.
"""

import tensorflow as tf

from tfagents_system.agents.sac_agent import CriticsBranch, SacAgent, SacGradients
from tfagents_system.agents.sac_losses import critic_loss, soft_td_target
from tfagents_system.networks.batch_renorm import BatchRenormActorNetwork, RenormalizedLayers


class CrossQAgent(SacAgent):
    """SAC whose critics judge (s, a) and (s', a') in one batch; see BatchRenormCriticNetwork.

    Section 3.3: both come from different distributions, and what normalizes a batch has to see
    both. The values at (s', a') are targets, so no gradient flows through them, but through the
    moments that they share with (s, a).
    """

    has_target_critics = False
    adam_beta_1 = 0.5  # of all networks, as in the authors' code

    @property
    def _layers_of_actor(self) -> list[RenormalizedLayers]:
        """Empty if the user's own actor has none."""
        is_own = isinstance(self.actor, BatchRenormActorNetwork)
        return [self.actor.layers_of_head] if is_own else []

    def apply_gradients(self, gradients: SacGradients) -> None:
        """Also updates the running moments."""
        super().apply_gradients(gradients)
        for critic, moments in zip(self.critics, gradients.critics_moments, strict=True):
            critic.layers_of_value.update(moments)

    def _update_actor_moments(self, moments):
        for layers in self._layers_of_actor:
            layers.update(moments)

    def _sample_to_train(self, time_steps, state):
        if not self._layers_of_actor:
            return super()._sample_to_train(time_steps, state)
        num_updates = self.train_step_counter // self.policy_delay
        distribution, moments = self.actor.of_batch(time_steps.observation, num_updates)
        return *self._drawn(distribution), moments

    def _no_moments(self):
        return [moments for layers in self._layers_of_actor for moments in layers.no_moments()]

    def _critics_branch(self, experience, alpha, valid) -> CriticsBranch:
        step = experience.next_time_step
        next_actions, next_log_prob = self._sample(step)
        actions = tf.concat([experience.action_step.action, next_actions], axis=0)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            variables = [critic.trainable_variables for critic in self.critics]
            variables += [experience.time_step.observation for _ in self.summarizers]
            tape.watch(variables)
            observations = tf.nest.map_structure(
                lambda *parts: tf.concat(parts, axis=0),
                experience.time_step.observation,
                step.observation,
            )
            with self._exact_values():
                judged = [
                    critic.of_batch((observations, actions), self.train_step_counter)
                    for critic in self.critics
                ]
            q_values, next_q_values = zip(*(tf.split(q, 2) for q, _ in judged), strict=True)
            td_target = tf.stop_gradient(
                soft_td_target(
                    step.reward, step.discount, self.gamma, next_q_values, next_log_prob, alpha
                )
            )
            loss = critic_loss(q_values, td_target, valid)
        return CriticsBranch(
            loss, q_values[0], td_target, tape.gradient(loss, variables), [m for _, m in judged]
        )
