"""Adapts other libraries' environments to PyEnvironment."""
