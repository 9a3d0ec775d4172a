"""Evaluates saved policies: episodes, records, videos."""
