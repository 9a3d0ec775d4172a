"""The package's own tasks."""
