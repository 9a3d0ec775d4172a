"""A process: its start and end, CPUs and memory, and the user code in it."""
