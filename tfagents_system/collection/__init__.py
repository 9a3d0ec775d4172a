"""Collects and evaluates: a worker's episodes and their records."""
