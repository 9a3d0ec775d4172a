"""The learner: train steps, checkpoints, policy exports."""
