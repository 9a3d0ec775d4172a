"""Reads and writes the records of a run: CSV, events, history."""
