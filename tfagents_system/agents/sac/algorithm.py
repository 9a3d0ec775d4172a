"""Builds the agent of Soft Actor-Critic: critics, two by default, and a learned temperature.

Source: Haarnoja et al. 2018, Soft Actor-Critic Algorithms and Applications, arXiv:1812.05905.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tf_agents.policies import actor_policy, greedy_policy

from tfagents_system.agents.agent import ActorCriticAgent
from tfagents_system.agents.agent_settings import PAIR, AgentParams
from tfagents_system.agents.building import (
    Parts,
    build_agent,
    build_networks,
    make_mlp_actor,
    make_mlp_critic,
)
from tfagents_system.agents.losses import Losses
from tfagents_system.agents.own_networks import own_network
from tfagents_system.agents.sac import losses, stream_losses
from tfagents_system.agents.temperature import Temperature
from tfagents_system.core.settings.reward_signals import streams_of
from tfagents_system.networks.heads import ActionHead

make_actor = make_mlp_actor
make_critic = make_mlp_critic


def make_agent(settings: AgentParams, parts: Parts) -> ActorCriticAgent:
    """Returns the agent of `settings`, with a state-value network or reward streams, if any.

    More than two critics are an ensemble, with the losses of RLPD.

    Raises:
      ConfigError: If the critics or the state-value network do not fit these settings.
    """
    num_critics = settings.critic_ensemble
    is_ensemble = num_critics > PAIR
    num_drawn = settings.critic_ensemble_subset if is_ensemble else None
    judged_by = losses.mean if is_ensemble else losses.smallest
    if streams := streams_of(settings):
        discounts = {name: stream.discount for name, stream in streams.items()}
        own_losses = Losses(
            partial(stream_losses.actor_loss, judged_by=judged_by),
            partial(stream_losses.critic_loss, discounts=discounts, num_drawn=num_drawn),
        )
        return make_soft_agent(
            settings, parts, own_losses, num_critics=num_critics, streams=list(streams)
        )
    own_losses = Losses(
        partial(losses.actor_loss, judged_by=judged_by),
        partial(losses.critic_loss, gamma=settings.discount, num_drawn=num_drawn),
    )
    if not settings.state_value_network:
        return make_soft_agent(settings, parts, own_losses, num_critics=num_critics)
    made = settings.state_value_ctor(parts.observation_spec)
    state_value = own_network("state_value_ctor", made, settings)
    own_losses = own_losses._replace(state_value=losses.state_value_loss)
    return make_soft_agent(settings, parts, own_losses, state_value=state_value)


def make_soft_agent(
    settings: AgentParams,
    parts: Parts,
    own_losses: Losses,
    temperature_ctor: Callable[[AgentParams, ActionHead], Temperature] | None = None,
    rule: Mapping[str, Any] | None = None,
    **networks: Any,
) -> ActorCriticAgent:
    """Returns an agent with a stochastic policy and a temperature.

    Args:
      settings: A TrainParams.
      parts: The agent's parts.
      own_losses: The algorithm's losses.
      temperature_ctor: Builds the temperature; None: `make_temperature`.
      rule: See `build_agent`.
      **networks: Passed to `make_networks`.
    """
    policy = actor_policy.ActorPolicy(parts.policy_spec, parts.action_spec, parts.acting_network())
    made = build_networks(parts, **networks)
    temperature = (temperature_ctor or make_temperature)(settings, made.head)
    policies = greedy_policy.GreedyPolicy(policy), policy
    return build_agent(settings, parts, made, own_losses, policies, temperature, rule)


def make_temperature(
    settings: AgentParams, head: ActionHead, adam_beta_1: float = 0.9
) -> Temperature:
    """Returns the temperature of `settings` for the actions of `head`."""
    target_entropy = head.default_target_entropy
    if settings.target_entropy is not None:
        target_entropy = settings.target_entropy * head.part_weights
    return Temperature(
        settings.sac_log_alpha,
        target_entropy,
        settings.alpha_learning_rate if settings.learn_alpha else None,
        adam_beta_1,
    )
