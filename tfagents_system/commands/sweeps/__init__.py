"""What `sac sweep` is made of: trials, their experiments, and results."""
