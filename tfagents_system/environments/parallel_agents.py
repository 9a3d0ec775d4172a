"""The agents of a parallel environment of PettingZoo."""

import itertools
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import tree
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.action_masks import ACTION_MASK, Choices, has_mask
from tfagents_system.core.errors import ConfigError
from tfagents_system.environments import adapter, spaces
from tfagents_system.environments.action_masks import checked_mask, mask_spec, with_mask
from tfagents_system.environments.agent_slots import CONTINUES, ENDS, AgentSteps

_FIRST, _MID, _LAST = ts.StepType.FIRST, ts.StepType.MID, ts.StepType.LAST

_Id = tuple[Any, int]  # an agent, and the number of its episode


class ParallelAgents:
    """Resets and steps all agents of a parallel environment; see `agent_slots.Agents`.

    When no agent is left, the environment needs a reset, which may follow new parameters. An agent
    that is both terminated and truncated is terminated: discount 0.
    """

    def __init__(self, env: Any, owner: str, seed: int | None = None):
        """Reads the spaces; resets only to see whether infos have masks of actions.

        Args:
          env: With PettingZoo's parallel API; not owned.
          owner: Name of the environment, for messages.
          seed: Of the first reset.

        Raises:
          ConfigError: If the agents differ in their spaces, or a space has no spec.
        """
        self._env, self._owner, self._reset_seed = env, owner, seed
        self._takes_seed = adapter.reset_takes_seed(env)
        self._numbers = itertools.count()
        self._living: dict[Any, int] = {}  # agents that have begun, with the number of the episode
        self.infos: dict[Any, Any] = {}  # by id, of the newest time steps
        self._space = _shared_space(env, "observation", owner)
        declared = spaces.observation_spec(self._space, owner)
        self.action_spec = spaces.action_spec(_shared_space(env, "action", owner), owner)
        self._declared, self._cast = declared, spaces.observation_cast(declared)
        self._cast_action = spaces.action_cast(self.action_spec, owner)
        self._choices = Choices(tree.flatten(self.action_spec))
        self._read_mask: Callable[[Any, Any], Any] | None = self._mask_reader()
        self.observation_spec = declared
        if self._read_mask:
            self.observation_spec = with_mask(declared, mask_spec(self._choices))

    @property
    def are_over(self) -> bool:
        """True while no agent is left; a reset brings new ones."""
        return not self._living

    def seed(self, seed: int) -> None:
        """Seeds the next reset."""
        self._reset_seed = seed

    def reset(self) -> AgentSteps:
        """Ends all episodes, without last steps, and begins new ones."""
        observations, infos = self._reset()
        self._living.clear()
        self.infos = {}
        asking = {
            self._begin(agent): ts.restart(self._first(agent, observation, infos))
            for agent, observation in observations.items()
        }
        self.infos = {each: infos.get(each[0], {}) for each in asking}
        return AgentSteps(asking, {})

    def step(self, actions: Mapping[_Id, Any]) -> AgentSteps:
        """Takes a step; `actions` are by id, of all agents that have asked.

        Raises:
          ValueError: If an agent that acts gets no reward, or leaves without an end.
          ConfigError: If the environment does not return five dicts.
        """
        chosen = {agent: self._cast_action(action) for (agent, _), action in actions.items()}
        before = set(self._env.agents)
        observations, rewards, terminations, truncations, infos = self._step(chosen)
        asking: dict[_Id, ts.TimeStep] = {}
        ended: dict[_Id, ts.TimeStep] = {}
        for agent, observation in observations.items():
            is_terminal = bool(terminations.get(agent, False))
            is_last = is_terminal or bool(truncations.get(agent, False))
            if agent not in self._living:
                # An agent that ends before it acts has no transition, nor has one that is gone.
                if not is_last and agent in self._env.agents:
                    first = self._first(agent, observation, infos)
                    asking[self._begin(agent)] = ts.restart(first)
                continue
            each = (agent, self._living[agent])
            if agent not in rewards:
                raise ValueError(
                    f"{self._owner}.step returned no reward of agent {agent!r}; a parallel "
                    "environment returns one for each agent that has acted"
                )
            reward = adapter.as_reward(rewards[agent])
            shown = self._observe(agent, observation, infos, is_last)
            if is_last:
                discount = ENDS if is_terminal else CONTINUES
                ended[each] = ts.TimeStep(_LAST, reward, discount, shown)
                del self._living[agent]
            else:
                asking[each] = ts.TimeStep(_MID, reward, CONTINUES, shown)
        self._check_left(before, observations)
        self.infos = {each: infos.get(each[0], {}) for each in [*asking, *ended]}
        return AgentSteps(asking, ended)

    def idle_action(self, observation: Any) -> Any:
        """Returns zeros or the nearest allowed numbers; for integers, the first allowed ones."""
        leaves = [
            np.clip(np.zeros(spec.shape, spec.dtype), spec.minimum, spec.maximum).astype(spec.dtype)
            for spec in tree.flatten(self.action_spec)
        ]
        if self._read_mask:
            self._choices.take_first(leaves, observation[ACTION_MASK])
        return tree.unflatten_as(self.action_spec, leaves)

    def _begin(self, agent: Any) -> _Id:
        self._living[agent] = number = next(self._numbers)
        return agent, number

    def _reset(self) -> tuple[Mapping[Any, Any], Mapping[Any, Any]]:
        seed, self._reset_seed = self._reset_seed, None
        result = self._env.reset(seed=seed) if self._takes_seed else self._env.reset()
        is_pair = isinstance(result, tuple) and len(result) == 2
        if not (is_pair and all(isinstance(part, Mapping) for part in result)):
            raise ConfigError(
                f"{self._owner}.reset returned a {type(result).__name__}; a parallel environment "
                "of PettingZoo returns (observations, infos), two dicts by agent."
            )
        if not result[0]:
            raise ConfigError(f"{self._owner}.reset returned no agent; expected one or more.")
        return result

    def _mask_reader(self) -> Callable[[Any, Any], Any] | None:
        """Returns a function that reads a mask from observation and info; None without masks."""
        if not self._choices.sizes:
            return None
        if has_mask(self._declared):
            return lambda observation, info: observation[ACTION_MASK]
        seed = self._reset_seed
        _, infos = self._reset()
        self._reset_seed = seed  # the next reset begins the same episodes
        if not any(ACTION_MASK in info for info in infos.values()):
            return None
        # At the end of an episode an info may lack the mask: no action follows.
        return lambda observation, info: info.get(ACTION_MASK, np.zeros(self._choices.num_integers))

    def _first(self, agent: Any, observation: Any, infos: Mapping[Any, Any]) -> Any:
        spaces.check_observation(observation, self._space, self._declared, self._owner)
        return self._observe(agent, observation, infos, is_last=False)

    def _observe(
        self, agent: Any, observation: Any, infos: Mapping[Any, Any], is_last: bool
    ) -> Any:
        shown = self._cast(observation)
        if not self._read_mask:
            return shown
        given = self._read_mask(observation, infos.get(agent, {}))
        return with_mask(shown, checked_mask(given, self._choices, is_last, f"of agent {agent!r}"))

    def _step(self, actions: Mapping[Any, Any]) -> Sequence[Mapping[Any, Any]]:
        result = self._env.step(actions)
        is_five = isinstance(result, tuple) and len(result) == 5
        if not (is_five and all(isinstance(part, Mapping) for part in result)):
            raise adapter.wrong_step_error(
                self._owner, result, "(observations, rewards, terminations, truncations, infos), "
                "five dicts by agent",
            )  # fmt: skip
        return result

    def _check_left(self, before: Set[Any], observations: Mapping[Any, Any]) -> None:
        """Raises ValueError if an agent has left `agents`, which were `before`, without an end."""
        for agent in self._living.keys() - set(self._env.agents):
            if agent not in observations:
                raise ValueError(
                    f"agent {agent!r} of {self._owner} has left without a last observation; a "
                    "parallel environment returns one in the step that ends the agent, with its "
                    "termination or truncation"
                )
            if agent in before:
                raise ValueError(
                    f"agent {agent!r} has left `agents` of {self._owner}, but neither its "
                    "termination nor its truncation is True; expected True for one of them in "
                    "the step that ends the agent"
                )


def _shared_space(env: Any, kind: str, owner: str) -> Any:
    """Returns the space of all agents.

    Raises:
      ConfigError: If there are no agents, or their spaces differ.
    """
    agents = list(env.possible_agents)
    if not agents:
        raise ConfigError(f"{owner}.possible_agents is empty; expected one or more agents.")
    space_of = getattr(env, f"{kind}_space")
    first, *others = agents
    space = space_of(first)
    for agent in others:
        if (other := space_of(agent)) != space:
            raise ConfigError(
                f"{owner} has agents with different {kind} spaces: {first!r} has {space}, "
                f"{agent!r} has {other}. Expected equal ones, because all agents share one "
                "policy. Pad them in a wrapper, and add to observations which agent it is, or "
                "return an environment with the agents of one kind alone."
            )
    return space
