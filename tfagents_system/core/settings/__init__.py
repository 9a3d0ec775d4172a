"""The hyperparameters, variables and config of a run, and their checks."""
