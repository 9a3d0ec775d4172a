"""Files of an experiment: what is on disk, whose it is, and what programs report."""
