"""Reads the time limits of a stop from stop_times.sh."""

import pathlib
import re

TABLE = pathlib.Path(__file__).with_name("stop_times.sh")


def _read() -> dict[str, float]:
    found = re.findall(r"^STOP_([A-Z]+)_SECS=([0-9]+)\b", TABLE.read_text(), re.MULTILINE)
    return {name.lower(): float(secs) for name, secs in found}


_SECS = _read()
WORKERS_SECS = _SECS["workers"]
LEARNER_SECS = _SECS["learner"]
REST_SECS = _SECS["rest"]
LEFTOVERS_SECS = _SECS["leftovers"]
_ENDS_SECS = _SECS["status"] + 3 * _SECS["killed"] + LEFTOVERS_SECS
STOP_SECS = WORKERS_SECS + LEARNER_SECS + REST_SECS + _ENDS_SECS  # of a whole run, at most
COLLECTORS_SECS = WORKERS_SECS + REST_SECS + _ENDS_SECS  # of a share without a learner


def secs_of(program: str) -> float:
    """Returns the time that a program may take to end after all programs got SIGTERM at once."""
    if program.startswith(("worker_", "evaluator_")):
        return WORKERS_SECS
    if program.startswith("learner"):
        return LEARNER_SECS
    return LEARNER_SECS + REST_SECS  # the others wait for the learner
