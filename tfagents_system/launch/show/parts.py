"""Fits a line of parts into a terminal's width, keeping the most important ones. Pure."""

import enum
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tfagents_system.core.display import printable

SEPARATOR = " | "
TROUBLE_CHARACTERS = 40  # of each trouble if there is no room for more


class Rank(enum.IntEnum):
    """The kinds of parts of a status line, the most important first."""

    TROUBLE = 0
    PROGRESS = 1
    RETURN = 2
    EVALUATION = 3
    SUCCESS = 4
    TIME_LEFT = 5
    COUNTS = 6
    TRAIN_STEPS = 7
    ENV_STEPS = 8
    EDITED = 9
    HOSTS = 10


class Part(NamedTuple):
    """A part of the line."""

    rank: Rank
    text: str
    short: str = ""  # instead of `text` where it does not fit; empty: there is none


def trouble(text: str) -> Part:
    """Returns the part that tells of trouble."""
    is_long = len(text) > TROUBLE_CHARACTERS
    return Part(Rank.TROUBLE, text, f"{text[: TROUBLE_CHARACTERS - 1]}…" if is_long else "")


def fitted(parts: Sequence[Part], width: int | None = None) -> str:
    """Returns the parts as one line of at most `width` characters; None: all of them.

    As long as it does not fit, parts are shortened and dropped: at first those after the time
    left, then the others. Of trouble and progress, only the end of the line may be cut.
    """
    texts = [part.text for part in parts]
    reductions = _reductions(parts)
    line = _joined(texts)
    while width is not None and len(line) > width:
        reduction = next(reductions, None)
        if reduction is None:
            return f"{line[: width - 1]}…"
        index, texts[index] = reduction
        line = _joined(texts)
    return line


def _joined(texts: Sequence[str]) -> str:
    return printable(SEPARATOR.join(filter(None, texts)))


def _reductions(parts: Sequence[Part]) -> Iterator[tuple[int, str]]:
    """Yields the steps that make the line shorter: index and new text of a part."""
    order = sorted(range(len(parts)), key=lambda index: (-parts[index].rank, -index))
    rest = [index for index in order if parts[index].rank > Rank.TIME_LEFT]
    wanted = [index for index in order if parts[index].rank <= Rank.TIME_LEFT]
    for indices in (rest, wanted):
        yield from ((index, parts[index].short) for index in indices if parts[index].short)
        yield from ((index, "") for index in indices if parts[index].rank > Rank.PROGRESS)
