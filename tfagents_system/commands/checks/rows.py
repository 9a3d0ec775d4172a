"""The table of `sac check`: what was checked, the result, what to do."""

import dataclasses
import pathlib
import textwrap
from collections.abc import Iterable
from typing import Literal

from tfagents_system.core.display import printable
from tfagents_system.core.process.guest import UserCodeError, place_of

Verdict = Literal["ok", "WRONG", "note"]
WIDTH = 100  # characters
BUSY = 0.5  # programs per CPU, from which on measurements are too slow


@dataclasses.dataclass(frozen=True)
class Row:
    """The result of one check."""

    what: str
    verdict: Verdict  # WRONG: training would fail or learn something wrong; note: worth knowing
    value: str
    advice: str = ""  # what to do if it is not ok


def table(rows: Iterable[Row]) -> str:
    """Returns a block of lines for each row, with advice below the value."""
    rows = list(rows)
    indent = max(len(row.what) for row in rows) + 2
    lines = []
    for row in rows:
        head = f"{row.what:<{indent}}{row.verdict:<7}"
        for text, mark in ((row.value, ""), (row.advice, "-> ")):
            if text:
                lines += textwrap.wrap(
                    printable(mark + text), WIDTH, initial_indent=head,
                    subsequent_indent=" " * (indent + 7),
                    break_on_hyphens=False, break_long_words=False,
                )  # fmt: skip
                head = " " * (indent + 7)
    return "\n".join(lines)


def explained(error: Exception) -> str:
    """Returns the exception of user code, with file and line."""
    if isinstance(error, UserCodeError):
        reason, place = error.reason, error.place
    else:
        reason = f"{type(error).__name__}: {str(error).strip() or 'no message'}"
        place = place_of(error)
    return f"{reason} ({pathlib.Path(place[0]).name}:{place[1]})" if place else reason


def busy_rows(load: float, num_cpus: int) -> list[Row]:
    """Returns a row if other programs kept the machine busy, which makes all measurements too slow.

    Args:
      load: Mean number of programs that ran or waited for a CPU before the check.
      num_cpus: CPUs of the machine.
    """
    if load < BUSY * num_cpus:
        return []
    value = (f"about {load:.1f} programs were running on {num_cpus} CPUs when this check began: "
             "all speeds of this check are measured beside them")  # fmt: skip
    return [Row("machine", "note", value, "Check again when it is idle.")]
