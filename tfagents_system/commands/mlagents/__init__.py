"""Converts the configuration files of ML-Agents into projects of our own."""
