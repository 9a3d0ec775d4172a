"""Rewards that are learned along with the agent."""
