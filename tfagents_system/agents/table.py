"""The table of algorithms; imports no TensorFlow."""

from collections.abc import Mapping

from tfagents_system.agents.algorithm import Algorithm
from tfagents_system.agents.crossq.settings import CROSSQ
from tfagents_system.agents.ddpg.settings import DDPG
from tfagents_system.agents.sac.settings import SAC
from tfagents_system.agents.td3.settings import TD3
from tfagents_system.agents.tqc.settings import TQC

ALGORITHMS: Mapping[str, Algorithm] = {row.name: row for row in (SAC, TQC, CROSSQ, TD3, DDPG)}
