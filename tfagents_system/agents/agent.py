"""The train step of the built-in algorithms: gradients of their losses, and one update rule."""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.policies import tf_policy
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.batch import Batch, make_batch, split_masks, with_shifted_images
from tfagents_system.agents.cloning import Cloning
from tfagents_system.agents.losses import Alpha, CriticLoss, Losses, sum_of_parts, valid_mean
from tfagents_system.agents.networks import Networks, reachable_share, summarized
from tfagents_system.agents.optimizers import Gradients, Optimizer, UpdateRule, current, make_adam
from tfagents_system.agents.temperature import Temperature
from tfagents_system.core.action_masks import input_spec
from tfagents_system.core.nests import Nest
from tfagents_system.data.transition import Transition
from tfagents_system.kernels.arithmetic import resolve, this_host
from tfagents_system.networks.matmul import matmul_precision

ACTOR_STEPS = "actor_steps"  # metric: 1 in a train step that updates the actor, else 0
OF_ACTOR = ("actor_loss", "alpha_loss", "entropy")  # metrics that are 0 in the other train steps
T = TypeVar("T")
_OfNetworks = Sequence[Sequence[Any]]  # gradients or variables: a list for each network


class _ActorStep(NamedTuple):
    """The results for actor and temperature; without an update, all but the moments are zeros."""

    losses: dict[str, tf.Tensor]
    metrics: dict[str, tf.Tensor]
    soft_value: Any
    by_actor: list[tf.Tensor]
    by_log_alpha: list[tf.Tensor]
    moments: Sequence[Any]


class ActorCriticAgent(tf_agent.TFAgent):
    """Trains an actor and critics on transitions [B, ...], or on sequences [B, T, ...].

        gradients, loss_info = agent.gradients(transition)
        agent.apply_gradients(gradients)                    # both together: agent.train(transition)

    A transition whose step type is LAST is padding and does not count. The extras of a sequence may
    be the stored state, for each step, of the summarizer or, without one, of the actor: that
    network starts from it, all others from zeros.

    All gradients of a train step are computed at the same variables, so that the branches of the
    graph (targets, critics, actor) are independent of each other.
    """

    masks_padding = True  # so workers may pad short episodes

    def __init__(
        self,
        algorithm: str,
        time_step_spec: ts.TimeStep,
        action_spec: Nest,
        networks: Networks,
        losses: Losses,
        rule: UpdateRule,
        policies: tuple[tf_policy.TFPolicy, tf_policy.TFPolicy],
        train_step_counter: tf.Variable,
        *,
        temperature: Temperature | None = None,
        image_augmentation: int = 0,
        burn_in_len: int = 0,
        precision: str = "float32",
    ):
        """Creates the optimizers.

        Args:
          algorithm: Name in the table of algorithms.
          time_step_spec: Specs of one time step, without batch axis.
          action_spec: Spec of the environment's action; see `action_head`.
          networks: The networks to train.
          losses: The algorithm's losses.
          rule: The update rule.
          policies: The policies for evaluation and collection.
          train_step_counter: int64 scalar, incremented by each train step.
          temperature: The temperature, for a stochastic policy.
          image_augmentation: Largest shift of the images of a minibatch, in pixels.
          burn_in_len: See `make_batch`.
          precision: Precision of the matrix products of train steps: "float32", "bfloat16",
            "int16" or "auto"; see `kernels/arithmetic.py`.
        """
        policy, collect_policy = policies
        super().__init__(
            time_step_spec,
            action_spec,
            policy=policy,
            collect_policy=collect_policy,
            train_sequence_length=None,
            train_step_counter=train_step_counter,
        )
        self.algorithm = algorithm
        self.networks = networks
        self.cloning: Cloning | None = None  # alongside the train steps
        self.rule, self.temperature, self._losses = rule, temperature, losses
        self._input_spec = input_spec(time_step_spec.observation, tf.nest.flatten(action_spec))
        self._image_augmentation, self._burn_in_len = image_augmentation, burn_in_len
        self._precision = precision
        self.actor_optimizer = make_adam(
            rule.actor_learning_rate, self._actor_variables, rule.adam_beta_1
        )
        self.critic_optimizer = make_adam(
            rule.critic_learning_rate,
            list(itertools.chain(*self._critics_variables, self._summarizer_variables,
                                 self._state_value_variables)),
            rule.adam_beta_1,
        )  # fmt: skip

    @functools.cached_property
    def arithmetic(self) -> str:
        """The arithmetic of the matrix products of train steps: "float32", "bfloat16" or "int16".

        Resolved at first use, because only the learner's host must support it. Raises ConfigError
        if it does not.
        """
        return resolve(self._precision, this_host())

    def _train(self, experience: Transition, weights: None = None) -> tf_agent.LossInfo:
        """Does one train step; see the class docstring."""
        gradients, loss_info = self.gradients(experience)
        self.apply_gradients(gradients)
        return loss_info

    def gradients(self, transition: Transition) -> tuple[Gradients, tf_agent.LossInfo]:
        """Returns the gradients of all losses for a minibatch, and metrics by name.

        Metrics are scalars before the update: means over the valid transitions.
        """
        networks = self.networks
        transition, masks = split_masks(transition, networks.head)
        transition, statistics = networks.normalized(transition)
        if self._image_augmentation:
            transition = with_shifted_images(transition, self._input_spec, self._image_augmentation)
        with matmul_precision(values=self.arithmetic, gradients=self.arithmetic):
            batch = make_batch(transition, networks.is_recurrent, self._burn_in_len, masks)
            alpha = None if self.temperature is None else self.temperature.alpha
            with tf.GradientTape(watch_accessed_variables=False) as summary_tape:
                summary_tape.watch(self._summarizer_variables)
                batch = summarized(networks, batch)
            # First, because ops wait for a core in this order, and this chain is the longest.
            actor = self._when_due(
                lambda: self._actor_step(batch, alpha), lambda: self._no_actor_step(batch)
            )
            critic, by_critics, by_features = self._critic_step(batch, alpha)
            by_summarizer = []
            if networks.summarizer is not None:
                by_summarizer = summary_tape.gradient(
                    batch.steps.observation, self._summarizer_variables, by_features
                )
            value_losses, by_state_value = self._state_value_step(batch, actor.soft_value)
        losses = {"critic_loss": critic.loss} | actor.losses | value_losses
        metrics = losses | actor.metrics | dict(critic.metrics)
        metrics["q_value"] = valid_mean(critic.q_value, batch.valid)
        metrics["td_target"] = valid_mean(critic.td_target, batch.valid)
        metrics["actor_learning_rate"] = current(self.rule.actor_learning_rate)
        if alpha is not None:
            metrics |= networks.head.alpha_metrics(alpha)
        gradients = Gradients(
            by_critics, by_summarizer, by_state_value, actor.by_actor, actor.by_log_alpha,
            actor.moments, critic.moments, statistics,
        )  # fmt: skip
        return gradients, tf_agent.LossInfo(sum(losses.values()), metrics)

    def apply_gradients(self, gradients: Gradients) -> None:
        """Clips and applies `gradients`, counts the train step and updates the target networks."""
        self._apply(
            self.critic_optimizer,
            [*gradients.critics, gradients.summarizer, gradients.state_value],
            [*self._critics_variables, self._summarizer_variables, self._state_value_variables],
        )
        self.rule.normalize_weights(self.networks.critics)
        is_due = self._is_step_of_actor()
        self.train_step_counter.assign_add(1)

        def update_actor() -> None:
            self._apply(self.actor_optimizer, [gradients.actor], [self._actor_variables])
            self.rule.normalize_weights([self.networks.actor])
            if self.temperature is not None:
                self.temperature.apply(gradients.log_alpha)
            if self.rule.delays_targets:
                self._update_targets()

        self._when_due(update_actor, lambda: None, is_due)
        if gradients.actor_moments:
            self.networks.actor.update_moments(gradients.actor_moments)
        if not self.rule.delays_targets:
            self._update_targets()
        for critic, moments in zip(self.networks.critics, gradients.critics_moments, strict=False):
            critic.update_moments(moments)
        self.networks.update_statistics(gradients.statistics)

    @property
    def _actor_variables(self) -> list[tf.Variable]:
        return self.networks.actor.trainable_variables

    @property
    def _critics_variables(self) -> list[list[tf.Variable]]:
        return [critic.trainable_variables for critic in self.networks.critics]

    @property
    def _summarizer_variables(self) -> list[tf.Variable]:
        summarizer = self.networks.summarizer
        return summarizer.trainable_variables if summarizer else []

    @property
    def _state_value_variables(self) -> list[tf.Variable]:
        state_value = self.networks.state_value
        return state_value.trainable_variables if state_value else []

    def _is_step_of_actor(self) -> tf.Tensor:
        return tf.equal((self.train_step_counter + 1) % self.rule.policy_delay, 0)

    def _when_due(
        self, then: Callable[[], T], otherwise: Callable[[], T], is_due: tf.Tensor | None = None
    ) -> T:
        """Calls `then` in train steps that update the actor, else `otherwise`."""
        if self.rule.policy_delay == 1:
            return then()
        return tf.cond(self._is_step_of_actor() if is_due is None else is_due, then, otherwise)

    def _actor_step(self, batch: Batch, alpha: Alpha) -> _ActorStep:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._actor_variables)
            actor = self._losses.actor(self.networks, batch, alpha)
        losses, metrics = {"actor_loss": actor.loss}, {ACTOR_STEPS: tf.constant(1.0)}
        by_log_alpha: list[tf.Tensor] = []
        by_actor = tape.gradient(actor.loss, self._actor_variables, unconnected_gradients="zero")
        by_actor = list(map(tf.convert_to_tensor, by_actor))  # dense, as in all other train steps
        if self.temperature is not None:
            log_prob = tf.stop_gradient(actor.log_prob)
            share = reachable_share(self.networks, batch.steps)
            losses["alpha_loss"], by_log_alpha = self.temperature.loss(log_prob, batch.valid, share)
            metrics["entropy"] = -valid_mean(sum_of_parts(log_prob, alpha), batch.valid)
        soft_value = actor.soft_value if self.networks.state_value is not None else ()
        return _ActorStep(losses, metrics, soft_value, by_actor, by_log_alpha, actor.moments)

    def _no_actor_step(self, batch: Batch) -> _ActorStep:
        zero, temperature = tf.constant(0.0), self.temperature
        is_soft = temperature is not None
        return _ActorStep(
            losses={"actor_loss": zero} | ({"alpha_loss": zero} if is_soft else {}),
            metrics={ACTOR_STEPS: zero} | ({"entropy": zero} if is_soft else {}),
            soft_value=(),
            by_actor=[tf.zeros_like(variable) for variable in self._actor_variables],
            by_log_alpha=[tf.zeros_like(temperature.log_alpha)] if temperature else [],
            moments=self._losses.idle_moments(batch),
        )

    def _critic_step(self, batch: Batch, alpha: Alpha) -> tuple[CriticLoss, _OfNetworks, Nest]:
        """Returns the critics' loss, and its gradients w.r.t. their variables and the features."""
        features = () if self.networks.summarizer is None else batch.steps.observation
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            sources = self._critics_variables, features
            tape.watch(sources)
            critic = self._losses.critic(self.networks, batch, alpha)
        return critic, *tape.gradient(critic.loss, sources, unconnected_gradients="zero")

    def _state_value_step(self, batch: Batch, soft_value: Any) -> tuple[dict[str, Any], list[Any]]:
        """Returns the loss by name, and its gradients; both empty without a state-value network."""
        if self._losses.state_value is None:
            return {}, []
        variables = self._state_value_variables
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            loss = self._losses.state_value(self.networks, batch, tf.stop_gradient(soft_value))
        return {"state_value_loss": loss}, tape.gradient(loss, variables)

    def _apply(self, optimizer: Optimizer, gradients: _OfNetworks, variables: _OfNetworks) -> None:
        """Clips and applies `gradients`, which like `variables` have one list per network."""
        if (largest := self.rule.gradient_clipping) is not None:
            gradients = [tf.clip_by_global_norm(g, largest)[0] for g in gradients]
        pairs = zip(itertools.chain(*gradients), itertools.chain(*variables), strict=True)
        # Aggregation joins all gradients in one op. TensorFlow relies on it to order reads before
        # updates, but then removes it: tests/agents/test_update_order.py.
        optimizer.apply_gradients(pairs, experimental_aggregate_gradients=False)

    def _update_targets(self) -> None:
        soft_update = functools.partial(self.networks.update_targets, self.rule.target_update_tau)
        if self.rule.target_update_period == 1:
            soft_update()
        else:
            is_due = tf.equal(self.train_step_counter % self.rule.target_update_period, 0)
            tf.cond(is_due, soft_update, lambda: None)
