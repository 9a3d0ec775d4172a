"""Builds the agent of CrossQ: SAC without target networks, with batch renormalization.

Source: Bhatt et al. 2024, arXiv:1902.05605.
"""

from functools import partial

from tfagents_system.agents.agent import ActorCriticAgent
from tfagents_system.agents.agent_settings import AgentParams, own_policy_delay
from tfagents_system.agents.building import (
    Parts,
    check_normalizes,
    make_normalizing_actor,
    make_normalizing_critic,
)
from tfagents_system.agents.crossq import losses
from tfagents_system.agents.losses import Losses
from tfagents_system.agents.sac import losses as sac_losses
from tfagents_system.agents.sac.algorithm import make_soft_agent, make_temperature
from tfagents_system.networks.batch_renorm import RenormalizedLayers
from tfagents_system.networks.normalizing_networks import (
    NormalizingActorNetwork,
)

ADAM_BETA_1 = 0.5  # for all networks, as in the authors' code


make_actor = partial(make_normalizing_actor, layers=RenormalizedLayers)
make_critic = partial(make_normalizing_critic, layers=RenormalizedLayers)


def make_agent(settings: AgentParams, parts: Parts) -> ActorCriticAgent:
    """Returns the agent of `settings`; a user's own actor may have no normalization."""
    check_normalizes(parts.critic)
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
            idle_moments=lambda batch: parts.actor.layers_of_head.running_moments(),
        )
    return make_soft_agent(
        settings, parts, own_losses, partial(make_temperature, adam_beta_1=ADAM_BETA_1),
        {"adam_beta_1": ADAM_BETA_1}, has_target_critics=False,
    )  # fmt: skip
