"""The status of a run."""
