"""The hyperparameters of XQC. Imports no TensorFlow."""

import dataclasses
from typing import TYPE_CHECKING

from tfagents_system.agents.algorithm import Algorithm
from tfagents_system.agents.sac.settings import EntropySettings
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.hyperparameters import declare, is_number, positive

if TYPE_CHECKING:
    from tfagents_system.agents.agent_settings import AgentSettings


@dataclasses.dataclass(eq=False, repr=False)
class XqcSettings:
    """The settings of XQC in addition to SAC's."""

    xqc_initial_alpha: float = positive(
        0.01, "initial entropy temperature of XQC, instead of `sac_log_alpha`"
    )
    xqc_final_learning_rate: float = declare(
        0.1,
        lambda v: is_number(v) and 0 <= v <= 1,
        "a number from 0 to 1",
        "final learning rates of XQC as a share of the initial ones; they decay linearly",
    )


def _check(settings: "AgentSettings", is_recurrent: bool, where: str) -> None:
    refused = {
        "recurrent": (is_recurrent, "its networks normalize minibatches of transitions"),
        "critic_layer_norm": (settings.critic_layer_norm, "its critics normalize batches"),
    }
    for name, (is_set, why) in refused.items():
        if is_set:
            raise ConfigError(
                f"{where}: algorithm is 'xqc' and {name} is True; expected {name} = False: {why}."
            )
    if settings.learning_rate_schedule != "constant":
        raise ConfigError(
            f"{where}: algorithm is 'xqc' and learning_rate_schedule is "
            f"{settings.learning_rate_schedule!r}; expected 'constant': its learning rates "
            "decay to xqc_final_learning_rate."
        )


XQC = Algorithm(
    "xqc",
    "XQC",
    settings=(EntropySettings, XqcSettings),
    policy_delay=3,
    normalizes_rewards=True,
    normalizes_batches=True,
    ignores=("sac_log_alpha",),
    has_goal_conditioning=False,
    check=_check,
)
