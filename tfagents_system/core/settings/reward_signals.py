"""The hyperparameter `reward_signals`: streams of rewards, with the settings of each."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.names import did_you_mean
from tfagents_system.core.settings.hyperparameters import (
    count,
    declare,
    flag,
    hyperparameters,
    is_number,
    positive,
)
from tfagents_system.core.settings.minibatches import trains_offline
from tfagents_system.core.settings.names_elsewhere import NAMES_ELSEWHERE
from tfagents_system.core.settings.params import Params

EXTRINSIC = "extrinsic"  # the stream of the environment's rewards
GAIL = "gail"  # imitates demonstrations
REWARD_SIGNALS_ALLOWED = (
    'None or a dict with a dict of settings for each signal, such as {"extrinsic": {}, "curiosity":'
    ' {"strength": 0.1}}'
)


def _uses_terminal_states(default: bool) -> Any:
    return flag(
        default,
        "whether a termination ends the returns; False: as if it were a time limit",
    )


@dataclasses.dataclass(frozen=True)
class StreamSettings:
    """The settings of every stream; the environment's rewards have no others."""

    strength: float = positive(1.0, "factor of its rewards")
    discount: float | None = declare(
        None,
        lambda v: v is None or (is_number(v) and 0 <= v <= 1),
        "None or a number in [0, 1]",
        "discount factor per env step of its values; None is the run's `discount`",
    )
    use_terminal_states: bool = _uses_terminal_states(True)


@dataclasses.dataclass(frozen=True)
class LearnedSettings(StreamSettings):
    """The settings of every signal that is learned."""

    use_terminal_states: bool = _uses_terminal_states(False)
    learning_rate: float = positive(3e-4, "Adam learning rate of its networks")
    encoding_size: int = count(128, "units of each layer that encodes observations")


@dataclasses.dataclass(frozen=True)
class CuriositySettings(LearnedSettings):
    """The settings of rewards/curiosity.py."""


@dataclasses.dataclass(frozen=True)
class RndSettings(LearnedSettings):
    """The settings of rewards/rnd.py."""

    learning_rate: float = positive(1e-4, "Adam learning rate of its networks")


@dataclasses.dataclass(frozen=True)
class GailSettings(LearnedSettings):
    """The settings of rewards/gail.py."""

    use_actions: bool = flag(False, "whether it judges actions and terminations, too")
    use_vail: bool = flag(False, "whether a variational bottleneck limits what it may know")


SIGNALS: Mapping[str, type[StreamSettings]] = {
    EXTRINSIC: StreamSettings,
    "curiosity": CuriositySettings,
    "rnd": RndSettings,
    GAIL: GailSettings,
}


def streams_of(settings: Params) -> dict[str, StreamSettings]:
    """Returns the settings of each stream of a TrainParams, by name and sorted by it.

    Defaults are filled in. It is empty without `reward_signals`: then the critics have one value,
    of the environment's rewards.
    """
    given = settings.reward_signals or {}
    streams = {name: SIGNALS[name](**given[name]) for name in sorted(given)}
    return {
        name: dataclasses.replace(stream, discount=settings.discount)
        if stream.discount is None
        else stream
        for name, stream in streams.items()
    }


def is_reward_signals(value: Any) -> bool:
    """Returns whether `value` is allowed; raises ValueError with the reason if a part is not."""
    if value is None:
        return True
    if not isinstance(value, Mapping) or not value:
        return False
    for signal, given in value.items():
        if signal not in SIGNALS:
            raise ValueError(f"there is no signal {signal!r}.{did_you_mean(str(signal), SIGNALS)}")
        if not isinstance(given, Mapping):
            raise ValueError(f"{signal} is {given!r}, not a dict of settings")
        declared = hyperparameters(SIGNALS[signal])
        for name, setting in given.items():
            if name not in declared:
                meant = NAMES_ELSEWHERE.get(str(name))
                known = f" Did you mean {meant}?" if meant in declared else None
                hint = known or did_you_mean(str(name), declared)
                raise ValueError(f"{signal} has no setting {name!r}.{hint}")
            try:
                declared[name].check(name, setting, signal)
            except ConfigError as error:
                raise ValueError(str(error).removesuffix(".")) from error
    return True


def check_reward_signals(settings: Params, where: str) -> None:
    """Raises ConfigError if rewards are not computed from single env steps, or lack data."""
    if GAIL in (settings.reward_signals or ()) and not settings.demonstrations:
        raise ConfigError(
            f"{where}: reward_signals has {GAIL}, and demonstrations is None; set demonstrations "
            "to files or folders of what it should imitate."
        )
    if GAIL in (settings.reward_signals or ()) and trains_offline(settings):
        raise ConfigError(
            f"{where}: reward_signals has {GAIL}, and demonstration_share is 1; expected a "
            f"share below 1: {GAIL} tells the agent's own env steps from the demonstrations, and "
            "offline there are none. sac clone imitates without them."
        )
    if settings.reward_signals and settings.n_step_returns > 1:
        raise ConfigError(
            f"{where}: n_step_returns is {settings.n_step_returns}, and reward_signals has "
            f"{', '.join(settings.reward_signals)}; expected n_step_returns = 1: signals "
            "judge single env steps, and each stream has its own discount."
        )
