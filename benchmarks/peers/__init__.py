"""Programs that measure Stable-Baselines3 and SBX; they run in .venv-peers."""
