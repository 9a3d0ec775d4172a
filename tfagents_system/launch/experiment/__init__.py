"""The folder of an experiment: made, locked, resumed."""
