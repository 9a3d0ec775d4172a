"""Prints lines and progress bars on a terminal."""
