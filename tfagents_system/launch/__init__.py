"""Starts runs: checks, CPU plan, daemontools services, status."""
