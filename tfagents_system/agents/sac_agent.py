"""Soft Actor-Critic with twin critics and a learned temperature.

Source: Haarnoja et al. 2018, Soft Actor-Critic Algorithms and Applications, arXiv:1812.05905.
"""

import functools
import itertools
import math
from typing import NamedTuple

import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.networks import network
from tf_agents.policies import actor_policy, greedy_policy
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory

from tfagents_system.agents.sac_losses import (
    actor_loss,
    alpha_loss,
    critic_loss,
    soft_td_target,
    valid_mean,
)
from tfagents_system.kernels.arithmetic import resolve, this_host
from tfagents_system.networks.distributions import SquashedGaussian
from tfagents_system.networks.encoders import action_center_and_magnitude
from tfagents_system.networks.matmul import matmul_precision


class SacInfo(NamedTuple):
    """Scalars of one train step, before its update; means over the valid transitions."""

    critic_loss: tf.Tensor
    actor_loss: tf.Tensor
    alpha_loss: tf.Tensor
    alpha: tf.Tensor
    entropy: tf.Tensor  # -E[log pi(a|s)], nats
    q_value: tf.Tensor  # first critic at the replayed actions
    td_target: tf.Tensor


class SacGradients(NamedTuple):
    """Gradients of the losses by the variables of each network, in the order of its variables."""

    critics: list[list[tf.Tensor]]  # of both
    actor: list[list[tf.Tensor]]  # of the one
    log_alpha: tf.Tensor


class SacAgent(tf_agent.TFAgent):
    """SAC on transitions [B, ...], or on sequences [B, T, ...] if the networks have a state.

        gradients, loss_info = agent.gradients(experience)  # a trajectory.Transition
        agent.apply_gradients(gradients)                    # both together: agent.train(experience)

    A transition whose `time_step` is LAST is padding and does not count. All gradients of a train
    step are taken at the same parameters, so that the branches of the graph (target, two critics,
    actor) are independent of each other.
    """

    masks_padding = True  # so workers may pad episodes that are shorter than a sequence

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec,
        actor_network: network.Network,
        critic_network: network.Network,
        *,
        actor_learning_rate: float = 3e-4,
        critic_learning_rate: float = 3e-4,
        alpha_learning_rate: float = 3e-4,
        target_update_tau: float = 0.005,
        target_update_period: int = 1,
        gamma: float = 0.99,
        initial_log_alpha: float = 1.0,
        gradient_clipping: float | None = None,
        precision: str = "float32",
        train_step_counter: tf.Variable,
    ):
        """Creates the twin and target critics as copies of `critic_network`.

        The entropy target is -A nats for actions scaled to [-1, 1] (A action dimensions), the
        authors' choice, expressed in the units of the environment's action.

        Args:
          time_step_spec: Specs of one time step, without batch axis.
          action_spec: One bounded float32 vector.
          actor_network: (observation, step_type, network_state) -> (distribution, state).
          critic_network: ((observation, action), step_type, network_state) -> (Q, state).
          actor_learning_rate: Adam step size, as the two others.
          critic_learning_rate: See `actor_learning_rate`.
          alpha_learning_rate: See `actor_learning_rate`.
          target_update_tau: Weight of the critic in a target update, in (0, 1].
          target_update_period: Train steps between target updates.
          gamma: Discount factor per env step.
          initial_log_alpha: Initial log of the entropy temperature.
          gradient_clipping: Largest global gradient norm per network; None does not clip.
          precision: Of the matrix products of train steps, "float32", "bfloat16", "int16" or
            "auto"; see `kernels/arithmetic.py`.
          train_step_counter: int64 scalar, incremented by each train step.
        """
        policy = actor_policy.ActorPolicy(time_step_spec, action_spec, actor_network)
        super().__init__(
            time_step_spec,
            action_spec,
            policy=greedy_policy.GreedyPolicy(policy),
            collect_policy=policy,
            train_sequence_length=None,
            train_step_counter=train_step_counter,
        )
        self.actor = actor_network
        self.critics = [critic_network, critic_network.copy(name="twin_critic")]
        self.target_critics = [
            critic_network.copy(name="target_critic"),
            critic_network.copy(name="twin_target_critic"),
        ]
        for critic in self.critics + self.target_critics:
            critic.create_variables((self.time_step_spec.observation, self.action_spec))
        self.log_alpha = tf.Variable(initial_log_alpha, dtype=tf.float32, name="log_alpha")
        self._is_recurrent = bool(tf.nest.flatten(actor_network.state_spec))
        _, magnitude = action_center_and_magnitude(self.action_spec)
        self.target_entropy = sum(math.log(m) for m in magnitude) - len(magnitude)
        self.gamma = gamma
        self.target_update_tau = target_update_tau
        self.target_update_period = target_update_period
        self.gradient_clipping = gradient_clipping
        self._precision = precision
        adam = tf.keras.optimizers.legacy.Adam  # one fused kernel per variable
        # Functions, because a number would be saved, and restored in place of one changed since.
        self.actor_optimizer = adam(lambda: actor_learning_rate)
        self.critic_optimizer = adam(lambda: critic_learning_rate)
        self.alpha_optimizer = adam(lambda: alpha_learning_rate)
        for optimizer, variables in (
            (self.actor_optimizer, self.actor.trainable_variables),
            (self.critic_optimizer, [v for c in self.critics for v in c.trainable_variables]),
            (self.alpha_optimizer, [self.log_alpha]),
        ):
            _create_moments(optimizer, variables)
        self._initialize()

    @functools.cached_property
    def arithmetic(self) -> str:
        """Of the matrix products of train steps here: "float32", "bfloat16" or "int16".

        Found out when first asked for, because only the host of the learner has to be able to do
        it. Raises ConfigError if it is not.
        """
        return resolve(self._precision, this_host())

    def _initialize(self):
        """Makes the target critics equal to the critics."""
        for critic, target in zip(self.critics, self.target_critics, strict=True):
            for source, variable in zip(critic.variables, target.variables, strict=True):
                variable.assign(source)

    def _train(self, experience: trajectory.Transition, weights=None):
        """One update of critics, actor, temperature and targets; see the class docstring."""
        gradients, loss_info = self.gradients(experience)
        self.apply_gradients(gradients)
        return loss_info

    def gradients(
        self, experience: trajectory.Transition
    ) -> tuple[SacGradients, tf_agent.LossInfo]:
        """Returns the gradients of the losses of a minibatch, not clipped, and its SacInfo."""
        with matmul_precision(values=self.arithmetic, gradients=self.arithmetic):
            return self._gradients(experience)

    def apply_gradients(self, gradients: SacGradients) -> None:
        """Clips and applies `gradients`, counts the train step and updates the targets."""
        critics = [critic.trainable_variables for critic in self.critics]
        self._apply(self.critic_optimizer, gradients.critics, critics)
        self._apply(self.actor_optimizer, gradients.actor, [self.actor.trainable_variables])
        self.alpha_optimizer.apply_gradients([(gradients.log_alpha, self.log_alpha)])
        self.train_step_counter.assign_add(1)
        self._update_targets()

    def _exact_values(self):
        """The TD error is a small difference of large values; bfloat16 has too few digits of it."""
        values = "float32" if self.arithmetic == "bfloat16" else self.arithmetic
        return matmul_precision(values=values, gradients=self.arithmetic)

    def _gradients(self, experience):
        alpha = tf.exp(self.log_alpha)
        valid = tf.cast(tf.not_equal(experience.time_step.step_type, ts.StepType.LAST), tf.float32)
        # First, because ops wait for a core in this order, and the actor's chain is the longest.
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            actor_variables = [self.actor.trainable_variables]
            tape.watch(actor_variables)
            actions, log_prob = self._sample(experience.time_step)
            actor_q_values = self._values(self.critics, experience.time_step, actions)
            actor_loss_value = actor_loss(log_prob, actor_q_values, alpha, valid)
        actor_gradients = tape.gradient(actor_loss_value, actor_variables)

        td_target = tf.stop_gradient(self.td_target(experience, alpha))
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            critic_variables = [critic.trainable_variables for critic in self.critics]
            tape.watch(critic_variables)
            with self._exact_values():
                q_values = self._values(self.critics, experience.time_step,
                                        experience.action_step.action)  # fmt: skip
            critic_loss_value = critic_loss(q_values, td_target, valid)
        critic_gradients = tape.gradient(critic_loss_value, critic_variables)

        log_prob = tf.stop_gradient(log_prob)
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
        loss = critic_loss_value + actor_loss_value + alpha_loss_value
        gradients = SacGradients(critic_gradients, actor_gradients, alpha_gradient)
        return gradients, tf_agent.LossInfo(loss, info)

    def td_target(self, experience: trajectory.Transition, alpha: tf.Tensor) -> tf.Tensor:
        """Returns the targets of the critics, [B] or [B, T], with actions drawn from the policy."""
        next_steps = experience.next_time_step
        if self._is_recurrent:  # the state after s_0 .. s_t is needed to judge s_{t+1}
            next_steps = _with_first_observation(experience)
        next_actions, next_log_prob = self._sample(next_steps)
        with self._exact_values():
            next_q_values = self._values(self.target_critics, next_steps, next_actions)
        if self._is_recurrent:
            next_log_prob, *next_q_values = (x[:, 1:] for x in (next_log_prob, *next_q_values))
        return soft_td_target(
            experience.next_time_step.reward,
            experience.next_time_step.discount,
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

    def _values(self, critics, time_steps, actions):
        return [
            critic(
                (time_steps.observation, actions),
                step_type=time_steps.step_type,
                network_state=(),
            )[0]
            for critic in critics
        ]

    def _apply(self, optimizer, gradients, variables):
        """Clips and applies `gradients`; like `variables`, a list for each network."""
        if self.gradient_clipping is not None:
            gradients = [tf.clip_by_global_norm(g, self.gradient_clipping)[0] for g in gradients]
        pairs = zip(itertools.chain(*gradients), itertools.chain(*variables), strict=True)
        optimizer.apply_gradients(pairs)

    def _update_targets(self):
        def soft_update():
            for critic, target in zip(self.critics, self.target_critics, strict=True):
                for source, variable in zip(critic.variables, target.variables, strict=True):
                    variable.assign_add(self.target_update_tau * (source - variable))

        if self.target_update_period == 1:
            soft_update()
        else:
            is_due = tf.equal(self.train_step_counter % self.target_update_period, 0)
            tf.cond(is_due, soft_update, lambda: None)


def _create_moments(optimizer, variables):
    """Creates the variables of Adam by a train step of zero gradients, which changes no other.

    Now, because a function that creates variables at its first call is traced twice.
    """
    optimizer.apply_gradients([(tf.zeros_like(variable), variable) for variable in variables])
    optimizer.iterations.assign(0)


def _with_first_observation(experience):
    """Time steps [B, T + 1]: the first observation of the sequence, then every next one."""
    first, following = experience.time_step, experience.next_time_step
    observation = tf.nest.map_structure(
        lambda o, next_o: tf.concat([o[:, :1], next_o], axis=1),
        first.observation,
        following.observation,
    )
    step_type = tf.concat([first.step_type[:, :1], following.step_type], axis=1)
    return ts.TimeStep(step_type, reward=(), discount=(), observation=observation)
