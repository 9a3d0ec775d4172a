"""Truncated Quantile Critics."""
