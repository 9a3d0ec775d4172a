"""The request to end training early but regularly, from any program of a run to its learner."""

import pathlib

from tfagents_system.core.state.files import read_json, write_json_atomically
from tfagents_system.core.state.paths import ExperimentPaths


def request_end(paths: ExperimentPaths, reason: str) -> None:
    """Asks the learner to finish training; the first request since the run's start counts."""
    if requested_end(paths) is None:
        write_json_atomically(paths.end_request, {"reason": reason})
        print(f"Training is to end: {reason}.", flush=True)


def requested_end(paths: ExperimentPaths) -> str | None:
    """Returns the reason of the request; None if there is none."""
    path: pathlib.Path = paths.end_request
    try:
        return str((read_json(path) or {})["reason"])
    except (OSError, ValueError, KeyError, TypeError):  # none, or damaged: it is requested again
        return None
