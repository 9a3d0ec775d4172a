"""What a worker does: episodes, and their records."""
