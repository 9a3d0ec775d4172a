"""The parts of `sac check`: rows about the environment and the learner, a forecast of the run."""
