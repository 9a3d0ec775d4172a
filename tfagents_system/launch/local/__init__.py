"""A share of a run on this host: its programs, their CPUs, their supervision."""
