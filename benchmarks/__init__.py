"""Measures this project and its peers, Stable-Baselines3 (torch) and SBX (JAX)."""
