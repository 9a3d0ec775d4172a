"""Compares and reports finished runs."""
