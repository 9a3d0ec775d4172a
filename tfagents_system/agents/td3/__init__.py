"""Twin Delayed Deep Deterministic Policy Gradient."""
