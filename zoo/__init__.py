"""Tasks with tuned settings, and their results."""
