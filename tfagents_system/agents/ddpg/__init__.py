"""Deep Deterministic Policy Gradient."""
