"""The files of an experiment, who owns them, and what programs report."""
