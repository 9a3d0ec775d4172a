"""The hyperparameters of Soft Actor-Critic alone; imports no TensorFlow."""

import dataclasses

from tfagents_system.core.hyperparameters import (
    declare,
    flag,
    is_number,
    number,
    positive,
)


@dataclasses.dataclass(eq=False, repr=False)
class SacSettings:
    """What SAC has and the other algorithms have not."""

    alpha_learning_rate: float = positive(3e-4, "Adam step size of log alpha")
    sac_log_alpha: float = number(1.0, "initial log of the entropy temperature alpha")
    learn_alpha: bool = flag(
        True, "adjust alpha so that the entropy meets its target; False keeps the initial one"
    )
    state_value_network: bool = flag(
        False,
        "learn the value of states, and bootstrap from its target network in place of those of the "
        "critics, as the first version of SAC did",
    )
    target_entropy: float | None = declare(
        None,
        lambda v: v is None or is_number(v),
        "None or a number",
        "entropy in nats that alpha is adjusted for, of actions scaled to [-1, 1]; None is minus "
        "the number of action dimensions",
    )
