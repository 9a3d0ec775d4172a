"""The table of algorithms. Imports no TensorFlow."""

import dataclasses
from collections.abc import Mapping

from tfagents_system.agents.algorithm import Algorithm
from tfagents_system.agents.crossq.settings import CROSSQ
from tfagents_system.agents.ddpg.settings import DDPG
from tfagents_system.agents.sac.settings import SAC, EntropySettings, SacSettings
from tfagents_system.agents.td3.settings import TD3, ExplorationSettings, Td3Settings
from tfagents_system.agents.tqc.settings import TQC, TqcSettings
from tfagents_system.agents.xqc.settings import XQC, XqcSettings

ALGORITHMS: Mapping[str, Algorithm] = {row.name: row for row in (SAC, TQC, CROSSQ, XQC, TD3, DDPG)}


# Not generated from the rows, so that type checkers see the attributes of a TrainParams.
@dataclasses.dataclass(eq=False, repr=False)
class OwnSettings(
    Td3Settings, ExplorationSettings, XqcSettings, TqcSettings, SacSettings, EntropySettings
):  # the fields of the last base come first
    """The hyperparameters that only some algorithms have."""
