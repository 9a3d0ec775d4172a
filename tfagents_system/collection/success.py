"""Reads the success that environments report. No other module does."""

from collections.abc import Mapping
from typing import Any

from tfagents_system.environments.info_flags import FlagError, read_flag

KEYS = ("success", "is_success")  # keys of the info; gymnasium's robotics use the latter


class SuccessError(ValueError):
    """A reported success is neither true nor false; the message shows it."""


def read_success(info: Any, observation: Any) -> bool | None:
    """Returns the success at the end of an episode; None if the environment reports none.

    Args:
      info: Info of the last step, of any type; read if it has one of `KEYS`.
      observation: The last observation; read if it has ["aux"]["successful"].

    Raises:
      SuccessError: If it is not a bool, 0 or 1, alone or in an array of one element.
    """
    found = {}
    if isinstance(info, Mapping):
        found = {f"info[{key!r}]": info[key] for key in KEYS if key in info}
    if isinstance(observation, Mapping) and isinstance(aux := observation.get("aux"), Mapping):
        found['observation["aux"]["successful"]'] = aux.get("successful")
    for name, value in found.items():
        if value is not None:
            try:
                return read_flag(value, name)
            except FlagError as error:
                raise SuccessError(f"{error}, so no success is counted") from None
    return None
