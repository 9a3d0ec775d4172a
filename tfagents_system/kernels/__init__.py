"""The learner's compiled ops: source, build, loading, and the arithmetic that a host supports."""
