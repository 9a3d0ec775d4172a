"""Mirrors a run's records to experiment trackers: Weights & Biases, MLflow."""
