"""Tasks of partial observation that come with the package."""
