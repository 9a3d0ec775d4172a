"""Measures a program's own speed and time."""

import collections
import time
from collections.abc import Callable, Sequence

SHOWN_WINDOW_SECS = 10.0  # of the rates in status lines and dashboards


def mean_of(values: Sequence[float]) -> float:
    """Returns the mean of any floats, without overflow of their sum."""
    return sum(value / len(values) for value in values)


class RateMeter:
    """Events per second between two readings.

    A window of several seconds evens out programs that wait for each other and work in bursts.
    """

    def __init__(
        self,
        count: int = 0,
        window_secs: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Starts measuring at `count` events."""
        self._clock, self._window_secs = clock, window_secs
        self._readings = collections.deque([(clock(), count)])

    def rate_at(self, count: int) -> float:
        """Returns the mean rate since the newest reading of `window_secs` ago, or the first."""
        now = self._clock()
        while len(self._readings) > 1 and self._readings[1][0] <= now - self._window_secs:
            self._readings.popleft()
        since, first_count = self._readings[0]
        self._readings.append((now, count))
        return (count - first_count) / max(now - since, 1e-9)


class RecentRate:
    """Events per second over the last minutes, including waits.

    Starts at the first reading after the first event, because compiling may delay that event.
    """

    def __init__(
        self,
        count: int = 0,
        window_secs: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Starts at `count` events; forgets readings that are older than `window_secs`."""
        self._start, self._clock, self._window_secs = count, clock, window_secs
        self._readings: collections.deque[tuple[float, int]] = collections.deque()

    def begin_anew(self, count: int) -> None:
        """Starts at `count` events again, so that the time before, such as a pause, is left out."""
        self._start = count
        self._readings.clear()

    def rate_at(self, count: int) -> float | None:
        """Returns the mean rate since the oldest reading; None if there is only this one."""
        if count == self._start:
            return None
        now = self._clock()
        self._readings.append((now, count))
        while self._readings[0][0] < now - self._window_secs:
            self._readings.popleft()
        since, first_count = self._readings[0]
        return (count - first_count) / (now - since) if now > since else None


class PhaseTimer:
    """Divides a program's wall time into phases; the program is in one phase at a time.

    timer = PhaseTimer("starting")
    timer.enter("acting"); act(); timer.enter("env step"); step()
    """

    def __init__(self, phase: str, clock: Callable[[], float] = time.perf_counter):
        """Starts in `phase`."""
        self._clock = clock
        self._phase, self._since = phase, clock()
        self._secs: dict[str, float] = {}
        self._last_totals: dict[str, float] = {}

    def enter(self, phase: str) -> float:
        """Begins `phase`, which may be the current one; returns the seconds of the ended phase."""
        now = self._clock()
        secs = now - self._since
        self._secs[self._phase] = self._secs.get(self._phase, 0.0) + secs
        self._phase, self._since = phase, now
        return secs

    def move(self, secs: float, source: str, target: str) -> None:
        """Moves `secs` from the phase `source` to `target`, which only hindsight tells apart."""
        self._secs[source] = self._secs.get(source, 0.0) - secs
        self._secs[target] = self._secs.get(target, 0.0) + secs

    def totals(self) -> dict[str, float]:
        """Returns the seconds of each phase since the start."""
        self.enter(self._phase)
        return dict(self._secs)

    def share_scalars(self, kind: str) -> dict[str, float]:
        """Returns `shares` by their tags in TensorBoard: `<kind>_time/<phase>_share`."""
        tag = f"{kind}_time/{{}}_share"
        return {tag.format(phase.replace(" ", "_")): v for phase, v in self.shares().items()}

    def shares(self) -> dict[str, float]:
        """Returns the share of each phase, 0 to 1, in the time since the last call."""
        totals = self.totals()
        secs = {name: total - self._last_totals.get(name, 0.0) for name, total in totals.items()}
        self._last_totals = totals
        elapsed = max(sum(secs.values()), 1e-9)
        return {name: value / elapsed for name, value in secs.items()}


def format_duration(secs: float) -> str:
    """Returns a duration as text: `45 s`, `3 min 20 s`, `5 h 10 min`, `2 d 4 h`."""
    minutes, seconds = divmod(round(secs), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = ((days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s"))
    first = next((index for index, (count, _) in enumerate(units) if count), 3)
    return " ".join(f"{count} {unit}" for count, unit in units[first : first + 2] if count) or "0 s"
