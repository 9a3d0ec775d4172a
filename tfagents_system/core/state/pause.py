"""The pause of an experiment, which lasts until somebody resumes it, even across restarts.

People may be next to a robot, so an unreadable file counts as a pause of everything.
"""

from collections.abc import Collection

from tfagents_system.core.state.files import read_json, write_json_durably
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.waiting import Throttled

COLLECTION, LEARNING = "collection", "learning"  # collection is all env steps, also of evaluations
PARTS = (COLLECTION, LEARNING)
LOOK_PERIOD_SECS = 0.2  # in the programs


def pause(paths: ExperimentPaths, parts: Collection[str]) -> None:
    """Pauses some of PARTS in addition to what is paused already."""
    write_json_durably(paths.pause, [part for part in PARTS if part in {*parts, *paused(paths)}])


def resume(paths: ExperimentPaths) -> None:
    """Ends the pause."""
    paths.pause.unlink(missing_ok=True)


def paused(paths: ExperimentPaths) -> tuple[str, ...]:
    """Returns the paused parts, in the order of PARTS."""
    try:
        parts = read_json(paths.pause)
    except (OSError, ValueError):
        return PARTS
    if parts is None:
        return ()
    is_readable = isinstance(parts, list) and set(map(str, parts)) <= set(PARTS)
    return tuple(parts) if is_readable else PARTS


def pause_of(paths: ExperimentPaths, part: str) -> Throttled[bool]:
    """Returns a reader of whether `part` is paused, which looks at the file every 0.2 s at most."""
    return Throttled(lambda: part in paused(paths), LOOK_PERIOD_SECS)
