"""Command lines, and the frame of every program."""
