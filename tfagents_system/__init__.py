"""Distributed multi-process Soft Actor-Critic on TF-Agents and Reverb."""
