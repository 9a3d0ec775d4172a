"""Hands what a run writes over to experiment trackers: Weights & Biases, MLflow."""
