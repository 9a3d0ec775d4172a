"""Policies to take away: models that act without this project."""
