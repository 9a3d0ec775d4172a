"""Films and windows."""
