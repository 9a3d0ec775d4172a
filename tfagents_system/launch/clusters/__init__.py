"""Runs placed by SLURM and Ray."""
