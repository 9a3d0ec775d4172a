"""The hyperparameters of the built-in Soft Actor-Critic agent; imports no TensorFlow."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.hyperparameters import (
    count,
    declare,
    is_number,
    layers,
    number,
    number_between,
    optional_positive,
    positive,
)


@dataclasses.dataclass(eq=False, repr=False)
class SacSettings:
    """What the built-in agent and its networks are made from."""

    discount: float = number_between(0, 1, 0.99, "discount factor per env step")
    critic_learning_rate: float = positive(3e-4, "Adam step size of the critics")
    actor_learning_rate: float = positive(3e-4, "Adam step size of the actor")
    alpha_learning_rate: float = positive(3e-4, "Adam step size of log alpha")
    target_update_tau: float = declare(
        0.005,
        lambda v: is_number(v) and 0 < v <= 1,
        "a number in (0, 1]",
        "weight of the critic in each soft update of its target",
    )
    target_update_period: int = count(1, "train steps between updates of the target critics")
    gradient_clipping: float | None = optional_positive(
        None, "largest global gradient norm of each network; None does not clip"
    )
    sac_log_alpha: float = number(1.0, "initial log of the entropy temperature alpha")
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


def check_sac_settings(settings: SacSettings, is_recurrent: bool, where: str) -> None:
    """Raises ConfigError for settings that are each allowed but do not fit together."""
    for name in ("actor_fc_layer_params", "critic_joint_fc_layer_params"):
        if is_recurrent and not getattr(settings, name):
            raise ConfigError(
                f"{where}: {name} is {getattr(settings, name)!r}; a recurrent network needs at "
                "least one layer: its LSTM takes its size from there."
            )
