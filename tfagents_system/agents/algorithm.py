"""The row of an algorithm in the table. Imports no TensorFlow."""

import dataclasses
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfagents_system.agents.agent_settings import AgentSettings  # made from the table of rows


def _allow_all(settings: "AgentSettings", is_recurrent: bool, where: str) -> None:
    """Accepts all settings."""


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """One value of the hyperparameter `algorithm`.

    Its package `agents/<name>/` has the modules `settings` (this row, and its own hyperparameters),
    `losses`, and `algorithm` with `make_actor`, `make_critic` and `make_agent`.
    """

    name: str
    title: str  # for help and docs
    settings: tuple[type, ...]  # dataclasses of its hyperparameters that not all algorithms have
    policy_delay: int = 1  # from its paper: train steps of the critics for each of the actor
    may_delay_policy: bool = True  # False keeps the above, whatever the settings
    normalizes_rewards: bool = False  # whether its paper scales rewards
    ignores: tuple[str, ...] = ()  # names in `settings` that others replace
    normalizes_batches: bool = False  # whether its networks normalize minibatches in training
    has_all_actions: bool = False  # whether its losses are defined for heads other than BoxHead
    has_ensembles: bool = False  # whether it may have more than two critics that share a target
    has_streams: bool = False  # whether its critics may have values of several reward streams
    has_goal_conditioning: bool = True  # whether a hidden layer may be generated from goals
    check: Callable[["AgentSettings", bool, str], None] = _allow_all
    """Raises ConfigError for settings that do not fit: (settings, is_recurrent, where)."""

    def implementation(self) -> Any:
        """Imports and returns the module `algorithm`, which needs TensorFlow."""
        return importlib.import_module(f"tfagents_system.agents.{self.name}.algorithm")
