"""The learner's compiled ops: source, build and loading, and what arithmetic a host can do."""
