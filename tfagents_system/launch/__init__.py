"""From settings to supervised processes: checks, CPU plan, daemontools services, status."""
