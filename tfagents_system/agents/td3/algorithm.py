"""Builds the agents of TD3 and DDPG.

Source: Fujimoto et al. 2018, Addressing Function Approximation Error in Actor-Critic Methods,
arXiv:1802.09477.
"""

from functools import partial

from tf_agents.networks import network
from tf_agents.policies import actor_policy

from tfagents_system.agents.agent import ActorCriticAgent
from tfagents_system.agents.agent_settings import AgentParams
from tfagents_system.agents.building import (
    Parts,
    build_agent,
    build_networks,
    make_mlp_actor,
    make_mlp_critic,
)
from tfagents_system.agents.exploration import NoisyPolicy
from tfagents_system.agents.losses import Losses
from tfagents_system.agents.td3 import losses
from tfagents_system.core.nests import Nest
from tfagents_system.networks.box_head import BoxHead

make_critic = make_mlp_critic


def make_actor(
    settings: AgentParams,
    summarizer: network.Network | None,
    observation_spec: Nest,
    action_spec: Nest,
) -> network.Network:
    """Returns a deterministic actor; see `make_mlp_actor`."""
    return make_mlp_actor(settings, summarizer, observation_spec, action_spec, deterministic=True)


def make_agent(settings: AgentParams, parts: Parts) -> ActorCriticAgent:
    """Returns the agent of `settings`."""
    return make_deterministic_agent(
        settings, parts, 2, settings.target_noise_std, settings.target_noise_clip
    )


def make_deterministic_agent(
    settings: AgentParams,
    parts: Parts,
    num_critics: int,
    noise_std: float = 0.0,
    noise_clip: float = 0.0,
) -> ActorCriticAgent:
    """Returns an agent whose target networks are updated only with the actor.

    Args:
      settings: A TrainParams.
      parts: The agent's parts.
      num_critics: At least 1.
      noise_std: Standard deviation of the noise of target actions, scaled to [-1, 1].
      noise_clip: Largest size of that noise.
    """
    policy = actor_policy.ActorPolicy(parts.policy_spec, parts.action_spec, parts.acting_network())
    is_ornstein_uhlenbeck = settings.exploration_noise == "ornstein_uhlenbeck"
    policies = policy, NoisyPolicy(policy, settings.exploration_noise_std, is_ornstein_uhlenbeck)
    networks = build_networks(parts, num_critics=num_critics, has_target_actor=True)
    head = networks.head
    assert isinstance(head, BoxHead), "no other has deterministic actors"
    critic_loss = partial(
        losses.critic_loss,
        gamma=settings.discount,
        noise_std=noise_std * head.magnitude,
        noise_clip=noise_clip * head.magnitude,
    )
    own_losses = Losses(losses.actor_loss, critic_loss)
    rule = {"delays_targets": True}
    return build_agent(settings, parts, networks, own_losses, policies, rule=rule)
