"""The hyperparameters of Truncated Quantile Critics. Imports no TensorFlow."""

import dataclasses
from typing import TYPE_CHECKING

from tfagents_system.agents.algorithm import Algorithm
from tfagents_system.agents.sac.settings import EntropySettings
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.hyperparameters import count

if TYPE_CHECKING:
    from tfagents_system.agents.agent_settings import AgentSettings


@dataclasses.dataclass(eq=False, repr=False)
class TqcSettings:
    """The settings of TQC in addition to SAC's."""

    tqc_critics: int = count(2, "critics of TQC; the paper has 5")
    tqc_quantiles: int = count(25, "quantiles of each critic of TQC")
    tqc_dropped_quantiles: int = count(
        2,
        "largest quantiles per critic that TQC's targets drop: more of them give lower estimates",
        at_least=0,
    )


def _check(settings: "AgentSettings", is_recurrent: bool, where: str) -> None:
    if settings.tqc_dropped_quantiles >= settings.tqc_quantiles:
        raise ConfigError(
            f"{where}: tqc_dropped_quantiles is {settings.tqc_dropped_quantiles}; expected less "
            f"than tqc_quantiles ({settings.tqc_quantiles})."
        )


TQC = Algorithm(
    "tqc",
    "Truncated Quantile Critics",
    settings=(EntropySettings, TqcSettings),
    check=_check,
)
