"""Builds the agent of DDPG.

Source: Lillicrap et al. 2015, Continuous control with deep reinforcement learning,
arXiv:1509.02971; its losses are those of TD3 with one critic, without noise in target actions.
"""

from tfagents_system.agents.agent import ActorCriticAgent
from tfagents_system.agents.agent_settings import AgentParams
from tfagents_system.agents.building import Parts
from tfagents_system.agents.td3.algorithm import make_actor, make_critic, make_deterministic_agent

__all__ = ["make_actor", "make_agent", "make_critic"]


def make_agent(settings: AgentParams, parts: Parts) -> ActorCriticAgent:
    """Returns the agent of `settings`."""
    return make_deterministic_agent(settings, parts, num_critics=1)
