"""Lines and progress bars on a terminal."""
