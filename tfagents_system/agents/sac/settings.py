"""The hyperparameters of Soft Actor-Critic. Imports no TensorFlow."""

import dataclasses
from typing import TYPE_CHECKING

from tfagents_system.agents.algorithm import Algorithm
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.hyperparameters import declare, flag, is_number, number, positive

if TYPE_CHECKING:
    from tfagents_system.agents.agent_settings import AgentSettings


@dataclasses.dataclass(eq=False, repr=False)
class EntropySettings:
    """The settings of the entropy temperature alpha, for algorithms with a stochastic policy."""

    alpha_learning_rate: float = positive(3e-4, "Adam learning rate of log alpha")
    sac_log_alpha: float = number(1.0, "initial log of the entropy temperature alpha")
    learn_alpha: bool = flag(
        True, "adjust alpha so that the entropy meets its target; False keeps the initial one"
    )
    target_entropy: float | None = declare(
        None,
        lambda v: v is None or is_number(v),
        "None or a number",
        "target of the entropy, in nats, of actions scaled to [-1, 1]; None is minus the number of "
        "action dimensions, with XQC half of that, and 0.2 log n for n discrete actions; several "
        "branches, and the Boxes beside them, have a temperature each, and this target",
    )


@dataclasses.dataclass(eq=False, repr=False)
class SacSettings:
    """The settings of SAC that algorithms derived from it do not have."""

    state_value_network: bool = flag(
        False,
        "learn the value of states, and bootstrap from its target network in place of those of the "
        "critics, as the first version of SAC did",
    )


def _check(settings: "AgentSettings", is_recurrent: bool, where: str) -> None:
    if not settings.state_value_network:
        return
    if settings.reward_signals:
        raise ConfigError(
            f"{where}: state_value_network is True, and there are reward_signals; expected "
            "state_value_network = False: the value of each stream is the critics'."
        )
    if settings.critic_ensemble > 2:
        raise ConfigError(
            f"{where}: state_value_network is True and critic_ensemble is "
            f"{settings.critic_ensemble}; expected critic_ensemble = 2: its target is the "
            "smaller value of both."
        )
    if is_recurrent:
        raise ConfigError(
            f"{where}: state_value_network is True and recurrent is True; expected recurrent = "
            "False."
        )
    if (settings.policy_delay or SAC.policy_delay) > 1:
        raise ConfigError(
            f"{where}: state_value_network is True and policy_delay is {settings.policy_delay}; "
            "expected policy_delay = 1, because its target is the actor's."
        )


SAC = Algorithm(
    "sac",
    "Soft Actor-Critic",
    settings=(EntropySettings, SacSettings),
    has_all_actions=True,
    has_ensembles=True,
    has_streams=True,
    check=_check,
)
