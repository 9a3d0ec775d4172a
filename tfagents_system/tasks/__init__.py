"""The package's own tasks of partial observation."""
