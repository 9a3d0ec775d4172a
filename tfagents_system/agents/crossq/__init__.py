"""CrossQ."""
