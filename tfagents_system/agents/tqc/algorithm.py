"""Builds the agent of Truncated Quantile Critics: SAC whose critics learn distributions.

Source: Kuznetsov et al. 2020, arXiv:2005.04269.
"""

from functools import partial
from typing import Any

from tf_agents.networks import network

from tfagents_system.agents.agent import ActorCriticAgent
from tfagents_system.agents.building import Parts, make_mlp_actor, make_mlp_critic
from tfagents_system.agents.losses import Losses
from tfagents_system.agents.sac import losses as sac_losses
from tfagents_system.agents.sac.algorithm import make_soft_agent
from tfagents_system.agents.tqc import losses

make_actor = make_mlp_actor


def make_critic(settings: Any, *args) -> network.Network:
    """Returns a critic with `tqc_quantiles` outputs; see `make_mlp_critic`."""
    return make_mlp_critic(settings, *args, num_quantiles=settings.tqc_quantiles)


def make_agent(settings: Any, parts: Parts) -> ActorCriticAgent:
    """Returns the agent of `settings`."""
    own_losses = Losses(
        partial(sac_losses.actor_loss, judged_by=losses.mean_quantile),
        partial(
            losses.critic_loss,
            gamma=settings.discount,
            num_dropped=settings.tqc_dropped_quantiles * settings.tqc_critics,
        ),
    )
    return make_soft_agent(settings, parts, own_losses, num_critics=settings.tqc_critics)
