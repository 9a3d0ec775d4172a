"""Adapters that make a PyEnvironment of other libraries' environments."""
