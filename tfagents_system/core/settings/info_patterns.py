"""Parses the entries of `log_info`: the numbers of an info to record, and their statistic."""

import fnmatch
import re
from typing import Any, NamedTuple

STATISTICS = ("mean", "min", "max", "last")
LOG_INFO_ALLOWED = (
    'a list of keys of the info, or patterns of keys, such as ["distance", "reward_*"], each '
    f"optionally with :{', :'.join(STATISTICS)}"
)


class InfoPattern(NamedTuple):
    """Selects keys of the info, and the statistic of each over an episode."""

    keys: str  # a key, or a pattern with *, ? or [...]
    statistic: str

    @classmethod
    def parse(cls, text: str) -> "InfoPattern":
        """Parses an entry such as "distance" or "reward_*:last"; the default is the mean."""
        keys, colon, statistic = text.rpartition(":")
        return cls(keys, statistic) if colon else cls(text, STATISTICS[0])

    def selects(self, key: str) -> bool:
        """Returns whether `key` is one of the keys."""
        return key == self.keys or fnmatch.fnmatchcase(key, self.keys)

    @property
    def is_key(self) -> bool:
        """True for a key, False for a pattern."""
        return not re.search(r"[*?\[]", self.keys)


def is_log_info(value: Any) -> bool:
    """Returns whether `value` is allowed for `log_info`."""
    return isinstance(value, (tuple, list)) and all(map(_is_entry, value))


def _is_entry(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    pattern = InfoPattern.parse(value)
    return bool(pattern.keys) and pattern.statistic in STATISTICS


def number_name(key: str, statistic: str) -> str:
    """Returns the name of a recorded number, such as distance_mean; other characters become _."""
    return re.sub(r"[^\w./-]", "_", f"{key}_{statistic}")
