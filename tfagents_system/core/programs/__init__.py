"""Command lines, and the start and end of every program."""
