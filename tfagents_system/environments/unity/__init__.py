"""Environments of Unity: builds and the Editor, by ML-Agents' protocol, without its package."""
