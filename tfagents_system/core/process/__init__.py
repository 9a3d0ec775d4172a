"""The process: its start and end, CPUs, memory, and the user code in it."""
