"""Measures Stable-Baselines3 and SBX, in the Python environment .venv-peers."""
