"""The row of CrossQ, which has no hyperparameters of its own. Imports no TensorFlow."""

from typing import TYPE_CHECKING

from tfagents_system.agents.algorithm import Algorithm
from tfagents_system.agents.sac.settings import EntropySettings
from tfagents_system.core.errors import ConfigError

if TYPE_CHECKING:
    from tfagents_system.agents.agent_settings import AgentSettings


def _check(settings: "AgentSettings", is_recurrent: bool, where: str) -> None:
    if is_recurrent:
        raise ConfigError(
            f"{where}: algorithm is 'crossq' and recurrent is True; expected recurrent = False: "
            "its critics normalize minibatches of transitions."
        )
    if settings.critic_layer_norm:
        raise ConfigError(
            f"{where}: algorithm is 'crossq' and critic_layer_norm is True; expected "
            "critic_layer_norm = False: its critics normalize batches."
        )


CROSSQ = Algorithm(
    "crossq",
    "CrossQ",
    settings=(EntropySettings,),
    policy_delay=3,
    normalizes_batches=True,
    has_all_actions=True,
    has_goal_conditioning=False,
    check=_check,
)
