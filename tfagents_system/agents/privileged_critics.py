"""Critics that see leaves of an observation that the actor does not, such as a simulator's state.

Source: Pinto et al. 2017, Asymmetric Actor Critic for Image-Based Robot Learning, arXiv:1710.06542.
"""

from collections.abc import Collection, Mapping
from typing import Any

from tf_agents.agents import tf_agent

from tfagents_system.agents.agent import ActorCriticAgent
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.leaves import names_of, without
from tfagents_system.core.names import did_you_mean


def check_critic_observations(names: Collection[str], input_spec: Any) -> None:
    """Raises ConfigError if `critic_observations` names no leaf, or leaves none to the actor.

    `input_spec` is the spec of the environment's observation without the mask of its actions.
    """
    if not names:
        return
    shown = f"TrainParams.critic_observations is {list(names)}"
    if not isinstance(input_spec, Mapping):
        raise ConfigError(
            f"{shown}, but the environment's observation is not a dict: it is {input_spec}. "
            "Expected critic_observations = []."
        )
    known = list(names_of(input_spec))
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise ConfigError(f"{shown}, but the environment's observation has no {name!r}.{hint}")
    if not without(input_spec, names):
        raise ConfigError(
            f"{shown}, which is all of the environment's observation; leave something to the actor."
        )


def check_has_privileged_critics(names: Collection[str], agent: tf_agent.TFAgent) -> None:
    """Raises ConfigError if `critic_observations` has no effect, because `agent` is a user's."""
    if names and not isinstance(agent, ActorCriticAgent):
        raise ConfigError(
            f"TrainParams.agent_ctor returned a {type(agent).__name__}, and critic_observations is "
            f"{list(names)}; expected critic_observations = []: "
            "only built-in agents hide them from their actor."
        )
