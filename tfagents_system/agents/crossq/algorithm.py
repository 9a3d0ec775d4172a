"""Builds the agent of CrossQ: SAC without target networks, with batch renormalization.

Source: Bhatt et al. 2024, arXiv:1902.05605.
"""

from functools import partial

from tf_agents.networks import network

from tfagents_system.agents.agent import ActorCriticAgent
from tfagents_system.agents.agent_settings import AgentParams, own_policy_delay
from tfagents_system.agents.building import Parts
from tfagents_system.agents.crossq import losses
from tfagents_system.agents.losses import Losses
from tfagents_system.agents.sac import losses as sac_losses
from tfagents_system.agents.sac.algorithm import make_soft_agent, make_temperature
from tfagents_system.core.nests import Nest
from tfagents_system.networks.batch_renorm import RenormalizedLayers
from tfagents_system.networks.normalizing_networks import (
    NormalizingActorNetwork,
    NormalizingCriticNetwork,
)

ADAM_BETA_1 = 0.5  # for all networks, as in the authors' code


def make_actor(
    settings: AgentParams, summarizer: None, observation_spec: Nest, action_spec: Nest
) -> network.Network:
    """Returns an actor with batch renormalization, never recurrent."""
    units = tuple(settings.actor_fc_layer_params)
    return NormalizingActorNetwork(
        observation_spec, action_spec, units, RenormalizedLayers, settings.preprocessing_combiner
    )


def make_critic(
    settings: AgentParams, summarizer: None, observation_spec: Nest, action_spec: Nest
) -> network.Network:
    """Returns a critic with batch renormalization, never recurrent."""
    units, specs = tuple(settings.critic_joint_fc_layer_params), (observation_spec, action_spec)
    return NormalizingCriticNetwork(
        specs, units, RenormalizedLayers, settings.preprocessing_combiner
    )


def make_agent(settings: AgentParams, parts: Parts) -> ActorCriticAgent:
    """Returns the agent of `settings`; a user's own actor may have no normalization."""
    train_step, delay = parts.train_step, own_policy_delay(settings)
    own_losses = Losses(
        sac_losses.actor_loss,
        partial(losses.critic_loss, gamma=settings.discount, train_step=train_step),
    )
    if isinstance(parts.actor, NormalizingActorNetwork):
        own_losses = own_losses._replace(
            actor=partial(
                losses.actor_loss,
                of_batch=lambda observation: parts.actor.of_batch(observation, train_step // delay),
            ),
            no_actor_moments=parts.actor.layers_of_head.no_moments,
        )
    return make_soft_agent(
        settings, parts, own_losses, partial(make_temperature, adam_beta_1=ADAM_BETA_1),
        {"adam_beta_1": ADAM_BETA_1}, has_target_critics=False,
    )  # fmt: skip
