"""Builds the agent of Truncated Quantile Critics: SAC with distributional critics.

Source: Kuznetsov et al. 2020, arXiv:2005.04269.
"""

from functools import partial

from tf_agents.networks import network

from tfagents_system.agents.agent import ActorCriticAgent
from tfagents_system.agents.agent_settings import AgentParams
from tfagents_system.agents.building import Parts, make_mlp_actor, make_mlp_critic
from tfagents_system.agents.losses import Losses
from tfagents_system.agents.sac import losses as sac_losses
from tfagents_system.agents.sac.algorithm import make_soft_agent
from tfagents_system.agents.tqc import losses
from tfagents_system.core.nests import Nest

make_actor = make_mlp_actor


def make_critic(
    settings: AgentParams,
    summarizer: network.Network | None,
    observation_spec: Nest,
    action_spec: Nest,
) -> network.Network:
    """Returns a critic with `tqc_quantiles` outputs; see `make_mlp_critic`."""
    return make_mlp_critic(
        settings,
        summarizer,
        observation_spec,
        action_spec,
        num_quantiles=settings.tqc_quantiles,
    )


def make_agent(settings: AgentParams, parts: Parts) -> ActorCriticAgent:
    """Returns the agent of `settings`."""
    own_losses = Losses(
        partial(sac_losses.actor_loss, judged_by=losses.mean_quantile),
        partial(
            losses.critic_loss,
            gamma=settings.discount,
            num_dropped=settings.tqc_dropped_quantiles * settings.tqc_critics,
        ),
    )
    return make_soft_agent(
        settings, parts, own_losses,
        num_critics=settings.tqc_critics, num_quantiles=settings.tqc_quantiles,
    )  # fmt: skip
