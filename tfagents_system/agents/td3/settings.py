"""The hyperparameters of the deterministic algorithms, TD3 and DDPG. Imports no TensorFlow."""

import dataclasses
from typing import Any, Literal, get_args

from tfagents_system.agents.algorithm import Algorithm
from tfagents_system.core.settings.hyperparameters import declare, is_number, one_of

ExplorationNoiseKind = Literal["gaussian", "ornstein_uhlenbeck"]


def _deviation(default: float, meaning: str) -> Any:
    return declare(default, lambda v: is_number(v) and v >= 0, "a number >= 0", meaning)


@dataclasses.dataclass(eq=False, repr=False)
class ExplorationSettings:
    """The exploration noise of a deterministic policy, for actions scaled to [-1, 1]."""

    exploration_noise: ExplorationNoiseKind = one_of(
        get_args(ExplorationNoiseKind),
        "gaussian",
        "exploration noise of TD3 and DDPG: gaussian has the spectrum of `exploration_noise_beta`; "
        "ornstein_uhlenbeck is x <- (1 - 0.15) x + noise, as in DDPG's paper",
    )
    exploration_noise_std: float = _deviation(
        0.1, "standard deviation of that noise; with ornstein_uhlenbeck, of each step's addition"
    )


@dataclasses.dataclass(eq=False, repr=False)
class Td3Settings:
    """The noise of TD3's targets, for actions scaled to [-1, 1]."""

    target_noise_std: float = _deviation(
        0.2, "standard deviation of the noise of target actions in TD3"
    )
    target_noise_clip: float = _deviation(0.5, "maximum size of that noise")


TD3 = Algorithm(
    "td3",
    "Twin Delayed DDPG",
    settings=(ExplorationSettings, Td3Settings),
    policy_delay=2,
)
