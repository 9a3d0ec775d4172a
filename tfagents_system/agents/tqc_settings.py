"""The hyperparameters of Truncated Quantile Critics alone; imports no TensorFlow."""

import dataclasses

from tfagents_system.core.hyperparameters import count


@dataclasses.dataclass(eq=False, repr=False)
class TqcSettings:
    """What TQC has beside those of SAC."""

    tqc_critics: int = count(2, "critics of TQC; the paper has 5")
    tqc_quantiles: int = count(25, "quantiles of each critic of TQC")
    tqc_dropped_quantiles: int = count(
        2,
        "largest quantiles that TQC's targets leave out, for each critic: more of them, lower "
        "estimates",
        at_least=0,
    )
