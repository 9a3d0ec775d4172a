"""Builds the agent of XQC: SAC with categorical critics, and normalized batches and weights.

Source: Palenicek et al. 2025, arXiv:2509.25174.
"""

import math
from functools import partial

from tfagents_system.agents.agent import ActorCriticAgent
from tfagents_system.agents.agent_settings import AgentParams
from tfagents_system.agents.building import (
    Parts,
    check_normalizes,
    falling_rate,
    make_normalizing_actor,
    make_normalizing_critic,
)
from tfagents_system.agents.crossq import losses as crossq_losses
from tfagents_system.agents.losses import Losses
from tfagents_system.agents.networks import seen_by
from tfagents_system.agents.optimizers import LearningRate
from tfagents_system.agents.sac import losses as sac_losses
from tfagents_system.agents.sac.algorithm import make_soft_agent
from tfagents_system.agents.temperature import Temperature
from tfagents_system.agents.xqc import losses
from tfagents_system.networks.batch_norm import BatchNormLayers
from tfagents_system.networks.heads import ActionHead
from tfagents_system.networks.normalizing_networks import NormalizingActorNetwork

make_actor = partial(make_normalizing_actor, layers=BatchNormLayers)
make_critic = partial(make_normalizing_critic, layers=BatchNormLayers, support=losses.SUPPORT)


def make_agent(settings: AgentParams, parts: Parts) -> ActorCriticAgent:
    """Returns the agent of `settings`; a user's own actor may have no normalization."""
    check_normalizes(parts.critic, losses.SUPPORT)
    own_losses = Losses(sac_losses.actor_loss, partial(losses.critic_loss, gamma=settings.discount))
    if isinstance(parts.actor, NormalizingActorNetwork):
        of_batch = parts.actor.of_batch
        own_losses = own_losses._replace(
            actor=partial(crossq_losses.actor_loss, of_batch=of_batch),
            # The policy acts with these moments, which change even while the actor is not updated.
            idle_moments=lambda batch: of_batch(seen_by(parts.actor, batch.steps))[1],
        )

    def falling(name: str) -> LearningRate:
        return falling_rate(settings, name, parts.train_step, settings.xqc_final_learning_rate)

    def make_temperature(_: AgentParams, head: ActionHead) -> Temperature:
        target_entropy = settings.target_entropy
        return Temperature(
            math.log(settings.xqc_initial_alpha),
            head.default_target_entropy / 2 if target_entropy is None else target_entropy,
            falling("alpha_learning_rate") if settings.learn_alpha else None,
            by_alpha=True,
        )

    rates = {name: falling(name) for name in ("actor_learning_rate", "critic_learning_rate")}
    rule = {**rates, "has_unit_weights": True}
    return make_soft_agent(settings, parts, own_losses, make_temperature, rule)
