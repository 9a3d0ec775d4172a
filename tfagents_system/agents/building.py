"""Builds networks and agents; shared by all algorithms."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import tensorflow as tf
from tf_agents.networks import network
from tf_agents.policies import tf_policy
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.agent import ActorCriticAgent
from tfagents_system.agents.agent_settings import AgentParams, own_policy_delay
from tfagents_system.agents.cloning import Cloning
from tfagents_system.agents.losses import Losses
from tfagents_system.agents.networks import Networks, make_networks
from tfagents_system.agents.optimizers import LearningRate, UpdateRule
from tfagents_system.agents.reward_scale import RewardScale
from tfagents_system.agents.table import ALGORITHMS
from tfagents_system.agents.temperature import Temperature
from tfagents_system.core.action_masks import input_spec
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.leaves import without
from tfagents_system.core.nests import Nest
from tfagents_system.core.settings.behavioral_cloning import CloningSettings
from tfagents_system.core.settings.reward_signals import streams_of
from tfagents_system.networks.action_heads import action_head
from tfagents_system.networks.actor_networks import (
    MaskingActorNetwork,
    MlpActorNetwork,
    acting_network,
)
from tfagents_system.networks.box_head import BoxHead
from tfagents_system.networks.critic_networks import MlpCriticNetwork, SummarizingCriticNetwork
from tfagents_system.networks.discrete_head import DiscreteHead
from tfagents_system.networks.nested_head import NestedHead
from tfagents_system.networks.normalizer import Normalizer, has_numbers
from tfagents_system.networks.normalizing_networks import (
    Layers,
    NormalizingActorNetwork,
    NormalizingCriticNetwork,
)


class Parts(NamedTuple):
    """The parts of an agent of any algorithm."""

    train_step: tf.Variable
    time_step_spec: ts.TimeStep  # of the environment
    observation_spec: Nest  # the critics' input: the summarizer's features, if any
    action_spec: Nest
    actor: network.Network
    critic: network.Network
    summarizer: network.Network | None  # shared by all networks
    normalizer: Normalizer | None = None  # of the observations, for all networks
    reward_scale: RewardScale | None = None  # of the rewards, for the critics
    critic_observations: Collection[str] = ()  # names of the leaves that the actor does not see
    actor_normalizer: Normalizer | None = None  # of what the actor sees, if that is not all

    @property
    def input_spec(self) -> Nest:
        """The spec of the environment's observation without the mask of its actions."""
        return input_spec(self.time_step_spec.observation, tf.nest.flatten(self.action_spec))

    @property
    def policy_spec(self) -> ts.TimeStep:
        """The spec of what a policy needs of the environment's time steps."""
        seen = without(self.time_step_spec.observation, self.critic_observations)
        return self.time_step_spec._replace(observation=seen)

    def acting_network(self) -> network.Network:
        """Returns the network that acts on the observations in `policy_spec`."""
        normalizer = self.actor_normalizer if self.critic_observations else self.normalizer
        acting = acting_network(self.actor, self.summarizer, normalizer)
        observation_spec = self.policy_spec.observation
        if input_spec(observation_spec, tf.nest.flatten(self.action_spec)) is observation_spec:
            return acting
        return MaskingActorNetwork(observation_spec, acting, action_head(self.action_spec))


def check_actions(settings: AgentParams, action_spec: Nest) -> None:
    """Raises ConfigError if the algorithm, or another setting, does not fit the actions."""
    head = action_head(action_spec)
    if isinstance(head, BoxHead):
        return
    if isinstance(head, DiscreteHead):
        found = f"discrete ({action_spec.dtype.name} {list(action_spec.shape)})"
    else:
        found = f"a {'dict' if isinstance(action_spec, Mapping) else 'tuple'} of several"
    found = f"the environment's actions are {found}"
    if not ALGORITHMS[settings.algorithm].has_all_actions:
        able = [name for name, row in ALGORITHMS.items() if row.has_all_actions]
        raise ConfigError(
            f"TrainParams.algorithm is {settings.algorithm!r}, but {found}; expected "
            f"{' or '.join(map(repr, able))}."
        )
    has_box = isinstance(head, NestedHead) and head.boxes
    if settings.exploration_noise_beta and not has_box:
        raise ConfigError(
            f"TrainParams.exploration_noise_beta is {settings.exploration_noise_beta:g}, but "
            f"{found}; expected 0: discrete actions have no noise."
        )


def make_mlp_actor(
    settings: AgentParams,
    summarizer: network.Network | None,
    observation_spec: Nest,
    action_spec: Nest,
    deterministic: bool = False,
) -> network.Network:
    """Returns an actor with the hidden layers of `settings`.

    Args:
      settings: A TrainParams.
      summarizer: This network's own summarizer, which then reads the observations.
      observation_spec: Nest of TensorSpecs without batch axis.
      action_spec: Spec of the environment's action; see `action_head`.
      deterministic: Whether it returns an action instead of a distribution.
    """
    actor = MlpActorNetwork(
        summarizer.features_spec if summarizer else observation_spec,
        action_spec,
        fc_layer_params=tuple(settings.actor_fc_layer_params),
        preprocessing_combiner=_combiner(settings),
        deterministic=deterministic,
        image_encoder=settings.image_encoder,
    )
    return acting_network(actor, summarizer)


def make_mlp_critic(
    settings: AgentParams,
    summarizer: network.Network | None,
    observation_spec: Nest,
    action_spec: Nest,
    num_quantiles: int | None = None,
) -> network.Network:
    """Returns a critic with the hidden layers of `settings`; see `make_mlp_actor`.

    `num_quantiles` is the number of quantiles of the return; None: only Q.
    """
    critic = MlpCriticNetwork(
        (summarizer.features_spec if summarizer else observation_spec, action_spec),
        tuple(settings.critic_joint_fc_layer_params),
        _combiner(settings),
        num_quantiles=num_quantiles,
        layer_norm=settings.critic_layer_norm,
        dropout_rate=settings.critic_dropout_rate,
        streams=tuple(streams_of(settings)),
        image_encoder=settings.image_encoder,
    )
    return SummarizingCriticNetwork(summarizer, critic) if summarizer else critic


def make_normalizing_actor(
    settings: AgentParams,
    summarizer: None,
    observation_spec: Nest,
    action_spec: Nest,
    layers: Layers,
) -> network.Network:
    """Returns an actor whose `layers` normalize batches; it cannot be recurrent."""
    return NormalizingActorNetwork(
        observation_spec,
        action_spec,
        tuple(settings.actor_fc_layer_params),
        layers,
        settings.preprocessing_combiner,
        settings.image_encoder,
    )


def make_normalizing_critic(
    settings: AgentParams,
    summarizer: None,
    observation_spec: Nest,
    action_spec: Nest,
    layers: Layers,
    support: tuple[float, ...] = (),
) -> network.Network:
    """Returns a critic whose `layers` normalize batches; see NormalizingCriticNetwork."""
    return NormalizingCriticNetwork(
        (observation_spec, action_spec),
        tuple(settings.critic_joint_fc_layer_params),
        layers,
        settings.preprocessing_combiner,
        support,
        settings.image_encoder,
    )


def check_normalizes(critic: network.Network, support: tuple[float, ...] = ()) -> None:
    """Raises ConfigError unless `critic` is a NormalizingCriticNetwork over `support`."""
    if not isinstance(critic, NormalizingCriticNetwork) or critic.support != support:
        raise ConfigError(
            f"TrainParams.critic_ctor returned a {type(critic).__name__}; expected the critic of "
            "the algorithm, which normalizes batches: leave critic_ctor out, or choose 'sac'."
        )


def _combiner(settings: AgentParams) -> Any:
    return None if settings.recurrent else settings.preprocessing_combiner  # the summarizer has it


def make_normalizers(
    settings: AgentParams, observation_spec: Nest, actor_spec: Nest
) -> tuple[Normalizer | None, Normalizer | None]:
    """Returns the normalizers of `observation_spec`, for training, and of `actor_spec`, for acting.

    The second is None if the actor sees all: then the first serves both.
    """
    if not settings.normalize_observations:
        return None, None
    if not settings.critic_observations:
        return Normalizer(observation_spec), None
    return Normalizer(observation_spec), Normalizer(actor_spec) if has_numbers(actor_spec) else None


def build_networks(parts: Parts, **kwargs: Any) -> Networks:
    """Returns the networks of `parts`; `kwargs` are passed to `make_networks`."""
    return make_networks(
        parts.input_spec,
        parts.action_spec,
        parts.actor,
        parts.critic,
        summarizer=parts.summarizer,
        normalizer=parts.normalizer,
        actor_normalizer=parts.actor_normalizer,
        reward_scale=parts.reward_scale,
        **kwargs,
    )


def build_agent(
    settings: AgentParams,
    parts: Parts,
    networks: Networks,
    losses: Losses,
    policies: tuple[tf_policy.TFPolicy, tf_policy.TFPolicy],
    temperature: Temperature | None = None,
    rule: Mapping[str, Any] | None = None,
) -> ActorCriticAgent:
    """Returns the agent; `rule` overrides fields of its UpdateRule."""
    of_settings = {
        "actor_learning_rate": _scheduled(settings, "actor_learning_rate", parts.train_step),
        "critic_learning_rate": _scheduled(settings, "critic_learning_rate", parts.train_step),
        "gradient_clipping": settings.gradient_clipping,
        "policy_delay": own_policy_delay(settings),
        "target_update_tau": settings.target_update_tau,
        "target_update_period": settings.target_update_period,
    }
    update_rule = UpdateRule(**of_settings | dict(rule or {}))
    agent = ActorCriticAgent(
        settings.algorithm,
        parts.time_step_spec,
        parts.action_spec,
        networks,
        losses,
        update_rule,
        policies,
        parts.train_step,
        temperature=temperature,
        image_augmentation=settings.image_augmentation,
        burn_in_len=settings.burn_in_len,
        precision=settings.matmul_precision,
    )
    if settings.behavioral_cloning:
        agent.cloning = Cloning(
            networks,
            update_rule,
            CloningSettings(**settings.behavioral_cloning),
            parts.train_step,
            settings.train_batch_size,
            settings.burn_in_len,
        )
    return agent


def _scheduled(settings: AgentParams, name: str, train_step: tf.Variable) -> LearningRate:
    """Returns the learning rate `name` according to `learning_rate_schedule`."""
    if settings.learning_rate_schedule == "constant":
        return getattr(settings, name)
    return falling_rate(settings, name, train_step, final_share=0.0)


def falling_rate(
    settings: AgentParams, name: str, train_step: tf.Variable, final_share: float
) -> LearningRate:
    """Returns the learning rate `name`, which decays linearly to `final_share` of it."""
    initial = getattr(settings, name)
    total = settings.num_iter * settings.num_steps_per_iter

    def rate() -> tf.Tensor:
        # An extended run continues with the schedule of the longer run.
        share = tf.minimum(tf.cast(train_step, tf.float32) / total, 1.0)
        return initial * (1.0 - (1.0 - final_share) * share)

    return rate
