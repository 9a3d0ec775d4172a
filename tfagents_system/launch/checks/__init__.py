"""Checks the user's files and packages before anything starts."""
