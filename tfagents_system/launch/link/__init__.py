"""The link between the hosts of a run."""
