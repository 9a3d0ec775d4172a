"""The row of DDPG, which shares some hyperparameters of TD3. Imports no TensorFlow."""

from tfagents_system.agents.algorithm import Algorithm
from tfagents_system.agents.td3.settings import ExplorationSettings

DDPG = Algorithm(
    "ddpg",
    "Deep Deterministic Policy Gradient",
    settings=(ExplorationSettings,),
    may_delay_policy=False,
)
