"""Parts of `sac sweep`: trials, their experiments, and results."""
