"""Measures this project, in its own Python environment."""
