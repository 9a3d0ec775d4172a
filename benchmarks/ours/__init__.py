"""Programs that measure this project; they run in its own environment."""
