"""The setting `behavioral_cloning`."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.hyperparameters import is_count, is_number
from tfagents_system.core.settings.params import Params

CLONING_ALLOWED = 'None or {"strength": a number > 0, "steps": an integer >= 1}'


class CloningSettings(NamedTuple):
    """Strength and duration of the imitation of demonstrations."""

    strength: float  # first learning rate, as a share of the actor's
    steps: int  # train steps until it is 0


def is_behavioral_cloning(value: Any) -> bool:
    """Returns whether `value` is allowed for the setting."""
    if value is None:
        return True
    if not isinstance(value, Mapping) or set(value) != set(CloningSettings._fields):
        return False
    strength, steps = value["strength"], value["steps"]
    return is_number(strength) and strength > 0 and is_count(steps, 1)


def check_behavioral_cloning(params: Params, where: str) -> None:
    """Raises ConfigError if there is nothing to imitate."""
    if params.behavioral_cloning and not params.demonstrations:
        raise ConfigError(
            f"{where}: behavioral_cloning is {dict(params.behavioral_cloning)} and demonstrations "
            "is None; set demonstrations to files or folders of what the actor should imitate."
        )
