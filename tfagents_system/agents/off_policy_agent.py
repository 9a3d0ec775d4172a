"""What the built-in agents share: critics and their targets, gradients and soft updates."""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.networks import network
from tf_agents.policies import tf_policy
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory

from tfagents_system.agents.experience import initial_state, next_steps, with_shifted_images
from tfagents_system.agents.optimizers import LearningRate, make_adam
from tfagents_system.kernels.arithmetic import resolve, this_host
from tfagents_system.networks.matmul import matmul_precision


class OffPolicyAgent(tf_agent.TFAgent):
    """An actor and critics, trained on transitions [B, ...], or on sequences [B, T, ...].

    Sequences it takes if the networks have a state.

        gradients, loss_info = agent.gradients(experience)  # a trajectory.Transition
        agent.apply_gradients(gradients)                    # both together: agent.train(experience)

    A transition whose `time_step` is LAST is padding and does not count. The info of a sequence's
    action steps may be the state of the summarizer, or else of the actor, that was stored with each
    step: they begin with it, all other networks with zeros.

    All gradients of a train step are taken at the same parameters, so that the branches of the
    graph (targets, critics, actor) are independent of each other.
    """

    masks_padding = True  # so workers may pad episodes that are shorter than a sequence
    has_target_critics = True
    adam_beta_1 = 0.9

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec,
        actor_network: network.Network,
        critic_network: network.Network,
        *,
        num_critics: int,
        state_value_network: network.Network | None = None,
        summarizer: network.Network | None = None,
        policy: tf_policy.TFPolicy,
        collect_policy: tf_policy.TFPolicy,
        actor_learning_rate: LearningRate = 3e-4,
        critic_learning_rate: LearningRate = 3e-4,
        target_update_tau: float = 0.005,
        target_update_period: int = 1,
        policy_delay: int = 1,
        gamma: float = 0.99,
        gradient_clipping: float | None = None,
        image_augmentation: int = 0,
        burn_in_len: int = 0,
        precision: str = "float32",
        train_step_counter: tf.Variable,
    ):
        """Creates the critics as copies of `critic_network`, and target networks.

        Args:
          time_step_spec: Specs of one time step, without batch axis.
          action_spec: One bounded float32 vector.
          actor_network: Of `policy` and `collect_policy`.
          critic_network: ((observation, action), step_type, network_state) -> (Q, state).
          num_critics: At least 1; all after the first are made as copies of it.
          state_value_network: (observation, step_type, network_state) -> (V, state). Its target is
            what TD targets bootstrap from then; None gives each critic a target.
          summarizer: (observation, step_type, network_state) -> (features, state). All other
            networks take its features for observations. The loss of the critics trains it, and
            targets take the features of its own target. None: there is none.
          policy: Acts in evaluation.
          collect_policy: Acts in collection.
          actor_learning_rate: Adam step size, or what returns that of the current train step.
          critic_learning_rate: See `actor_learning_rate`.
          target_update_tau: Weight of a network in an update of its target, in (0, 1].
          target_update_period: Train steps between target updates.
          policy_delay: Train steps of the critics for each of the actor.
          gamma: Discount factor per env step.
          gradient_clipping: Largest global gradient norm per network; None does not clip.
          image_augmentation: Largest shift of the images of a minibatch, in pixels.
          burn_in_len: Transitions at the begin of a sequence that do not count, unless it begins an
            episode.
          precision: Of the matrix products of train steps, "float32", "bfloat16", "int16" or
            "auto"; see `kernels/arithmetic.py`.
          train_step_counter: int64 scalar, incremented by each train step.
        """
        super().__init__(
            time_step_spec,
            action_spec,
            policy=policy,
            collect_policy=collect_policy,
            train_sequence_length=None,
            train_step_counter=train_step_counter,
        )
        self.actor = actor_network
        self.summarizers, self.target_summarizers = [], []
        observation_spec = self.time_step_spec.observation
        if summarizer is not None:
            self.summarizers = [summarizer]
            self.target_summarizers = [summarizer.copy(name="target_summarizer")]
            for net in self.summarizers + self.target_summarizers:
                net.create_variables(observation_spec)
            observation_spec = summarizer.features_spec
        self.critics, self.target_critics = [critic_network], []
        for index in range(num_critics):
            if index:
                self.critics.append(critic_network.copy(name=f"critic_{index}"))
            if state_value_network is None and self.has_target_critics:
                self.target_critics.append(critic_network.copy(name=f"target_critic_{index}"))
        for critic in self.critics + self.target_critics:
            critic.create_variables((observation_spec, self.action_spec))
        self.state_values, self.target_state_values = [], []
        if state_value_network is not None:
            self.state_values = [state_value_network]
            self.target_state_values = [state_value_network.copy(name="target_state_value")]
        for value in self.state_values + self.target_state_values:
            value.create_variables(observation_spec)
        self._is_recurrent = bool(tf.nest.flatten(actor_network.state_spec))
        self.gamma = gamma
        self.target_update_tau = target_update_tau
        self.target_update_period = target_update_period
        self.policy_delay = policy_delay
        self.gradient_clipping = gradient_clipping
        self._image_augmentation = image_augmentation
        self._burn_in_len = burn_in_len
        self._precision = precision
        self.actor_optimizer = make_adam(
            actor_learning_rate, self.actor.trainable_variables, self.adam_beta_1
        )
        self.critic_optimizer = make_adam(
            critic_learning_rate, list(itertools.chain(*self._critic_variables)), self.adam_beta_1
        )

    @functools.cached_property
    def arithmetic(self) -> str:
        """Of the matrix products of train steps here: "float32", "bfloat16" or "int16".

        Found out when first asked for, because only the host of the learner has to be able to do
        it. Raises ConfigError if it is not.
        """
        return resolve(self._precision, this_host())

    @property
    def _critic_variables(self) -> list[list[tf.Variable]]:
        """What the critics' optimizer trains, network by network."""
        networks = self.critics + self.summarizers + self.state_values
        return [net.trainable_variables for net in networks]

    def _initialize(self):
        """Makes the targets equal to their networks."""
        for source, target in self._pairs_with_targets():
            for variable, of_target in zip(source.variables, target.variables, strict=True):
                of_target.assign(variable)

    def _pairs_with_targets(self) -> Sequence[tuple[network.Network, network.Network]]:
        """Returns each network that has a target, with it."""
        pairs = list(zip(self.summarizers, self.target_summarizers, strict=True))
        sources = self.critics if self.target_critics else self.state_values
        targets = self.target_critics or self.target_state_values
        return pairs + list(zip(sources, targets, strict=True))

    def _train(self, experience: trajectory.Transition, weights=None):
        """One train step; see the class docstring."""
        gradients, loss_info = self.gradients(experience)
        self.apply_gradients(gradients)
        return loss_info

    def gradients(self, experience: trajectory.Transition) -> tuple[Any, tf_agent.LossInfo]:
        """Returns the gradients of the losses of a minibatch, not clipped, and its info."""
        if self._image_augmentation:
            experience = with_shifted_images(
                experience, self.time_step_spec.observation, self._image_augmentation
            )
        with matmul_precision(values=self.arithmetic, gradients=self.arithmetic):
            if not self.summarizers:
                return self._gradients(experience)
            return self._gradients_through_summarizer(experience)

    def _gradients_through_summarizer(self, experience):
        """Takes features for observations, and hands the critics' gradients by them on."""
        (summarizer,), (target,) = self.summarizers, self.target_summarizers
        is_sequence = bool(tf.nest.flatten(summarizer.state_spec))
        variables = summarizer.trainable_variables
        state = initial_state(experience)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            features = _summary(summarizer, experience.time_step, state)
        next_features = _summary(target, next_steps(experience, is_sequence), state)
        if is_sequence:
            next_features = next_features[:, 1:]
        gradients, loss_info = self._gradients(
            experience._replace(
                time_step=experience.time_step._replace(observation=features),
                action_step=experience.action_step._replace(info=()),
                next_time_step=experience.next_time_step._replace(observation=next_features),
            )
        )
        index = len(self.critics)  # where those by the features are
        by_variables = tape.gradient(features, variables, gradients.critics[index])
        critics = [*gradients.critics[:index], by_variables, *gradients.critics[index + 1 :]]
        return gradients._replace(critics=critics), loss_info

    def apply_gradients(self, gradients: Any) -> None:
        """Clips and applies `gradients`, counts the train step and updates the targets."""
        raise NotImplementedError

    def _gradients(self, experience: trajectory.Transition) -> tuple[Any, tf_agent.LossInfo]:
        raise NotImplementedError

    def _exact_values(self):
        """The TD error is a small difference of large values; bfloat16 has too few digits of it."""
        values = "float32" if self.arithmetic == "bfloat16" else self.arithmetic
        return matmul_precision(values=values, gradients=self.arithmetic)

    def _values(self, critics, time_steps, actions):
        inputs = time_steps.observation, actions
        return [
            critic(inputs, step_type=time_steps.step_type, network_state=())[0]
            for critic in critics
        ]

    def _critic_branch(
        self,
        loss: Callable[..., tf.Tensor],
        experience: trajectory.Transition,
        target: tf.Tensor,
        valid: tf.Tensor,
    ) -> tuple[tf.Tensor, list[tf.Tensor], list[list[tf.Tensor]]]:
        """Returns the loss, the critics' values at the replayed actions, and its gradients.

        The loss is `loss(q_values, target, valid)`, its gradients are by the variables of each
        critic, then by the features, if there is a summarizer.
        """
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            variables = [critic.trainable_variables for critic in self.critics]
            variables += [experience.time_step.observation for _ in self.summarizers]
            tape.watch(variables)
            with self._exact_values():
                q_values = self._values(
                    self.critics, experience.time_step, experience.action_step.action
                )
            value = loss(q_values, target, valid)
        return value, q_values, tape.gradient(value, variables)

    def _is_step_of_actor(self) -> Any:
        return tf.equal((self.train_step_counter + 1) % self.policy_delay, 0)

    def _if(self, condition, then, otherwise):
        """tf.cond, but for a delay of one, where `condition` always holds."""
        return then() if self.policy_delay == 1 else tf.cond(condition, then, otherwise)

    def _next_steps(self, experience: trajectory.Transition) -> ts.TimeStep:
        """Returns the steps that targets are computed at: the next ones, [B] or [B, T].

        Of sequences [B, T + 1], the first observation before them: the state after s_0 .. s_t is
        needed to judge s_{t+1}.
        """
        return next_steps(experience, self._is_recurrent)

    def _of_next_steps(self, values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns values at `_next_steps` without those at the first observation."""
        return [value[:, 1:] for value in values] if self._is_recurrent else list(values)

    def _apply(self, optimizer, gradients, variables):
        """Clips and applies `gradients`; like `variables`, a list for each network."""
        if self.gradient_clipping is not None:
            gradients = [tf.clip_by_global_norm(g, self.gradient_clipping)[0] for g in gradients]
        pairs = zip(itertools.chain(*gradients), itertools.chain(*variables), strict=True)
        # Aggregation joins all gradients in one op, through which TensorFlow takes reads to precede
        # updates, and which it then removes: tests/agents/test_update_order.py.
        optimizer.apply_gradients(pairs, experimental_aggregate_gradients=False)

    def _update_targets(self):
        pairs = [
            (variable, of_target)
            for source, target in self._pairs_with_targets()
            for variable, of_target in zip(source.variables, target.variables, strict=True)
        ]

        def soft_update():
            for variable, of_target in pairs:
                of_target.assign_add(self.target_update_tau * (variable - of_target))

        if self.target_update_period == 1:
            soft_update()
        else:
            is_due = tf.equal(self.train_step_counter % self.target_update_period, 0)
            tf.cond(is_due, soft_update, lambda: None)


def _summary(summarizer, steps, state):
    return summarizer(steps.observation, step_type=steps.step_type, network_state=state)[0]
