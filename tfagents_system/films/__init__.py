"""Films and live windows of episodes."""
