"""The status and the profile of a run."""
