"""Soft Actor-Critic."""
