"""The commands of `sac` that are not programs or tools: new projects, starts, lists of runs."""
