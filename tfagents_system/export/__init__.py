"""Exports policies as models that act without this project."""
