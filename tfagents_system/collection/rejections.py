"""Tells when an environment returns nothing that can be kept."""

from collections.abc import Mapping

from tfagents_system.data.sample_reader import LARGEST_VALUE
from tfagents_system.environments.own_arrays import InvalidArrayError

MAX_IN_A_ROW = 20  # rejected env steps of each slot, with not one kept between them
NUM_REASONS = 3  # in a message


class Rejections:
    """Counts the env steps of one environment that were rejected since the last one that was kept.

    A rejected step ends its episode, and the next one begins, so that an environment that fails now
    and then goes on. One of which every step is rejected would do so for ever.
    """

    def __init__(self, owner: str, num_slots: int):
        """Takes the environment's class name, for the message, and its number of slots."""
        self._owner = owner
        self._most = MAX_IN_A_ROW * num_slots
        self._in_a_row = 0
        self._has_kept = False  # any step in this start of the program

    def note(self, is_kept: bool) -> None:
        """Counts an env step."""
        if is_kept:
            self._in_a_row, self._has_kept = 0, True
        else:
            self._in_a_row += 1

    def error(self, reasons: Mapping[str, int]) -> InvalidArrayError | None:
        """Returns the error for too many in a row, which then count anew; otherwise None.

        `reasons` are the numbers of rejected steps in this start of the worker, by reason.
        """
        if self._in_a_row < self._most:
            return None
        self._in_a_row = 0
        numbers = sorted(reasons.items(), key=lambda item: -item[1])
        shown = ", ".join(f"{reason} ({number:,})" for reason, number in numbers[:NUM_REASONS])
        others = len(numbers) - NUM_REASONS
        more = f", and {others} other reasons" if others > 0 else ""
        error = InvalidArrayError(
            f"The last {self._most} env steps of {self._owner} were all rejected, and each ended "
            f"its episode: {shown}{more}. Expected finite numbers of at most {LARGEST_VALUE:g} "
            "in size, with the shapes and dtypes of its specs. Correct the environment; sac check "
            "shows what is wrong with it."
        )
        error.kept_nothing = not self._has_kept
        return error
