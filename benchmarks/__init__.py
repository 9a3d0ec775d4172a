"""Measurements of this project and of its peers, Stable-Baselines3 (torch) and SBX (JAX)."""
