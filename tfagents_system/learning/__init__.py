"""The learner: update loop, checkpoints, policy export."""
