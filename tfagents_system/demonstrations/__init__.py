"""Demonstrations: episodes of a person or another policy, in files, for training."""
