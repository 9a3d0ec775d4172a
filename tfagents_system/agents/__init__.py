"""The built-in Soft Actor-Critic agent."""
