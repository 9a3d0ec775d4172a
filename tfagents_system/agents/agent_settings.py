"""The hyperparameters of the built-in agents; imports no TensorFlow."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

from tfagents_system.agents.sac_settings import SacSettings
from tfagents_system.agents.td3_settings import Td3Settings
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.hyperparameters import (
    count,
    declare,
    is_number,
    layers,
    number_between,
    one_of,
    optional_positive,
    positive,
)

Algorithm = Literal["sac", "td3", "ddpg"]
LearningRateSchedule = Literal["constant", "linear"]


@dataclasses.dataclass(eq=False, repr=False)
class SharedSettings:
    """What every built-in agent and its networks are made from."""

    algorithm: Algorithm = one_of(
        get_args(Algorithm),
        "sac",
        "what is trained: Soft Actor-Critic, Twin Delayed DDPG, or DDPG, which is TD3 with one "
        "critic, without delay and without noise in its targets",
    )
    discount: float = number_between(0, 1, 0.99, "discount factor per env step")
    critic_learning_rate: float = positive(3e-4, "Adam step size of the critics")
    actor_learning_rate: float = positive(3e-4, "Adam step size of the actor")
    learning_rate_schedule: LearningRateSchedule = one_of(
        get_args(LearningRateSchedule),
        "constant",
        "course of the step sizes of actor and critics: linear falls to 0 at the last train step",
    )
    target_update_tau: float = declare(
        0.005,
        lambda v: is_number(v) and 0 < v <= 1,
        "a number in (0, 1]",
        "weight of a network in each soft update of its target",
    )
    target_update_period: int = count(1, "train steps between updates of the target networks")
    gradient_clipping: float | None = optional_positive(
        None, "largest global gradient norm of each network; None does not clip"
    )
    actor_fc_layer_params: Sequence[int] = layers((256, 256), "units of the actor's hidden layers")
    critic_joint_fc_layer_params: Sequence[int] = layers(
        (256, 256), "units of each critic's hidden layers"
    )
    preprocessing_combiner: Callable[..., Any] | None = declare(
        None,
        lambda v: v is None or callable(v),
        "None or a Keras layer",
        "Keras layer that joins the parts of a nested observation into one vector [B, n]; it "
        "receives the nest, or the list of its parts if it is a merge layer such as `Concatenate`",
    )


@dataclasses.dataclass(eq=False, repr=False)
class AgentSettings(Td3Settings, SacSettings, SharedSettings):  # fields: those of the last first
    """What all built-in agents are made from: of each algorithm its own, and what they share."""


def check_agent_settings(settings: AgentSettings, is_recurrent: bool, where: str) -> None:
    """Raises ConfigError for settings that are each allowed but do not fit together."""
    if settings.state_value_network and is_recurrent:
        raise ConfigError(
            f"{where}: state_value_network is True and recurrent is True; the state-value network "
            "is feed-forward. Set one of them to False."
        )
    for name in ("actor_fc_layer_params", "critic_joint_fc_layer_params"):
        if is_recurrent and not getattr(settings, name):
            raise ConfigError(
                f"{where}: {name} is {getattr(settings, name)!r}; a recurrent network needs at "
                "least one layer: its LSTM takes its size from there."
            )
