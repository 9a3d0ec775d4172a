"""What `sac` does beyond the programs and tools: new projects, starts, lists of runs."""
