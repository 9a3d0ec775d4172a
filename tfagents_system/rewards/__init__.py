"""Rewards that are learned beside the agent."""
