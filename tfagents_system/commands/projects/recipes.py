"""Chooses the settings of a new project by its algorithm and its kind of actions."""

from typing import NamedTuple

from tfagents_system.agents.table import ALGORITHMS
from tfagents_system.commands.projects.environment_ids import EnvironmentId
from tfagents_system.core.errors import ConfigError


class Recipe(NamedTuple):
    """Settings of TrainParams."""

    lines: str  # of the class's body
    train_steps: int = 1  # for each env step


_ALPHA = (
    "    sac_log_alpha = 0.0  # near the size of a step's reward; a larger one explores longer\n"
)
_DISCRETE = """\
    # Actions are discrete: less entropy than rewards, and values that follow in fewer train steps.
    sac_log_alpha = -3.0
    alpha_learning_rate = 3e-3
    critic_learning_rate = 1e-3
    target_update_tau = 0.02
"""
_CROSSQ = """\
    actor_learning_rate = critic_learning_rate = alpha_learning_rate = 1e-3  # its authors'
"""
_XQC = """\
    critic_learning_rate = 1e-3  # its authors have 3e-4, for critics of 4x512
"""


def check_takes_actions(algorithm: str, environment: EnvironmentId) -> None:
    """Raises ConfigError if the algorithm does not support the environment's kind of actions."""
    if not (environment.is_one_vector or ALGORITHMS[algorithm].has_all_actions):
        able = [repr(name) for name, row in ALGORITHMS.items() if row.has_all_actions]
        raise ConfigError(
            f"algorithm is {algorithm!r}, but an action of {environment.name} has choices, or "
            f"several parts; expected {' or '.join(able)}."
        )


def recipe_for(algorithm: str | None, horizon: int, is_discrete: bool) -> Recipe:
    """Returns the settings to start from.

    Args:
      algorithm: Of agents/table.py; None for the default one.
      horizon: Env steps of an episode.
      is_discrete: Whether an action has only discrete choices.
    """
    named = "" if algorithm is None else f'    algorithm = "{algorithm}"\n'
    if is_discrete:
        return Recipe(named + _DISCRETE)
    if algorithm == "xqc":
        discount = f"    discount = {_xqc_discount(horizon)}  # its authors', of the horizon\n"
        return Recipe(named + discount + _XQC, train_steps=2)
    if algorithm == "crossq":
        return Recipe(named + _ALPHA + _CROSSQ)
    return Recipe(named if algorithm in ("td3", "ddpg") else named + _ALPHA)


def _xqc_discount(horizon: int) -> float:
    """Returns (L/5 - 1) / (L/5), from 0.95 to 0.995; Palenicek et al. 2025, arXiv:2509.25174."""
    return round(min(max(1 - 5 / horizon, 0.95), 0.995), 4)
