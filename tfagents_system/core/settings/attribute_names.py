"""Sorts the attributes of a user's TrainParams: published, misspelt, or the user's own."""

import difflib
import re
from collections.abc import Iterable

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.names_elsewhere import SETTINGS_ELSEWHERE

HOOKS = (
    "env_ctor",
    "collect_env_args_kwargs",
    "eval_env_args_kwargs",
    "actor_ctor",
    "critic_ctor",
    "state_value_ctor",
    "summarizer_ctor",
    "agent_ctor",
    "reward_signals_ctor",
    "train_observers_ctor",
    "eval_observers_ctor",
    "sample_parameter",
    "callbacks",
)  # methods of TrainParams that a user may define
_HOOK_ENDINGS = ("_ctor", "_args_kwargs")
_SHORT = 8  # letters; two slips in a shorter name can give another word


def check_attribute_name(
    name: str, hyperparameters: Iterable[str], where: str, is_method: bool = False
) -> str | None:
    """Checks one attribute of TrainParams for a misspelt published name.

    Args:
      name: The attribute's name.
      hyperparameters: The published names.
      where: File and line, for the message.
      is_method: Whether it is a method, which may be a misspelt hook.

    Returns:
      A note if the name resembles a published one or a hook, or if other libraries have a setting
      of that name; else None.

    Raises:
      ConfigError: If the name is surely a misspelt published one.
    """
    published = (*hyperparameters, *HOOKS)
    if name in published or name.startswith("_"):
        return None
    nearest = difflib.get_close_matches(name, published, n=1, cutoff=0.8)
    for candidate in published:
        if is_typing_error(name, candidate):
            raise ConfigError(
                f"{where}: TrainParams.{name} is not a training parameter. Did you mean "
                f"{candidate}? (An attribute of your own needs a name less like it, or a leading "
                "underscore.)"
            )
    if is_method and (name.endswith(_HOOK_ENDINGS) or any(n in HOOKS for n in nearest)):
        return (
            f"{where}: TrainParams.{name} is not a hook of this system: nothing calls it. The "
            f"hooks are {', '.join(HOOKS)}."
        )
    if not is_method and name in SETTINGS_ELSEWHERE:
        return (
            f"{where}: TrainParams.{name} counts as an attribute of your own. If it is to be the "
            f"setting of that name in other libraries: here it is {SETTINGS_ELSEWHERE[name]}."
        )
    if nearest:
        return (
            f"{where}: TrainParams.{name} counts as an attribute of your own; the nearest "
            f"published name is {nearest[0]}."
        )
    return None


def is_typing_error(name: str, published: str) -> bool:
    """Returns whether `name` is `published` except for case, underscores, and one or two slips.

    A missing, additional or transposed letter is one slip; a wrong letter counts as two. A short
    name may have one slip. Different digits and additional words are intended.
    """
    if re.sub(r"\D", "", name) != re.sub(r"\D", "", published):
        return False
    letters, wanted = (text.replace("_", "").lower() for text in (name, published))
    num_slips = 2 if len(wanted) >= _SHORT else 1
    if name.count("_") > published.count("_"):
        num_slips = 0
    return _num_slips(letters, wanted) <= num_slips


def _num_slips(a: str, b: str) -> int:
    """Returns the number of insertions, deletions and transpositions that turn `a` into `b`.

    Source: Damerau 1964, "A technique for computer detection and correction of spelling errors";
    without his substitutions.
    """
    rows = [list(range(len(b) + 1))]
    for i in range(1, len(a) + 1):
        row = [i]
        for j in range(1, len(b) + 1):
            distance = min(rows[i - 1][j], row[j - 1]) + 1
            if a[i - 1] == b[j - 1]:
                distance = min(distance, rows[i - 1][j - 1])
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                distance = min(distance, rows[i - 2][j - 2] + 1)
            row.append(distance)
        rows.append(row)
    return rows[-1][-1]
