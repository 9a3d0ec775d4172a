"""The agents of one behavior in a Unity build or the Editor."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.names import did_you_mean
from tfagents_system.environments.agent_slots import CONTINUES, ENDS, AgentSteps
from tfagents_system.environments.unity import messages as unity
from tfagents_system.environments.unity.behaviors import Agents, Behavior, idle_action
from tfagents_system.environments.unity.connection import Connection, UnityError
from tfagents_system.environments.unity.side_channels import (
    DEFAULT_ENGINE,
    EngineSettings,
    engine_message,
    parameter_message,
    statistics,
)


class UnityAgents:
    """Resets and steps all agents of one behavior.

        agents = UnityAgents(Connection("builds/3DBall.x86_64"))
        steps = agents.reset()
        steps = agents.step({id: action for id in steps.asking})
        agents.close()

    An id is that of an episode: an agent that ends gets another one with its next first step, which
    comes with the last one. Agents of other behaviors get zeros as actions.
    """

    are_over = False  # a simulator of Unity begins new episodes by itself

    def __init__(
        self,
        connection: Connection,
        behavior: str | None = None,
        engine: EngineSettings = DEFAULT_ENGINE,
    ):
        """Resets the simulator, to learn its behaviors; owns `connection`.

        Args:
          connection: To Unity.
          behavior: Name, with or without the part after "?"; None if there is only one.
          engine: Sent with the first reset.

        Raises:
          ConfigError: If there is no such behavior, or several and none is chosen.
          UnityError: See `Connection.exchange`.
        """
        self._connection = connection
        self._channels = engine_message(engine)
        self.statistics: dict[str, float] = {}  # the newest of each that Unity has sent
        self._begun: set[int] = set()  # ids that have had their first step
        self._idle: dict[str, Any] = {}  # messages Action of agents of other behaviors
        try:
            output = self._exchange(unity.Input(command=unity.RESET))
            descriptions = {each.name: each for each in output.hello.behaviors}
            name = chosen_behavior(behavior, list(descriptions))
            self.behavior = Behavior.read(descriptions[name], output.output.agents[name].value)
        except BaseException:
            connection.close()
            raise
        self._remember(output)
        self.num_at_first = len(self._asking_ids(self.behavior.name))

    def reset(self) -> AgentSteps:
        """Ends all episodes, without last steps, and begins new ones."""
        self._begun.clear()
        return self._take(self._exchange(unity.Input(command=unity.RESET)))

    def step(self, actions: Mapping[int, Any]) -> AgentSteps:
        """Simulates until agents ask again.

        Args:
          actions: By id, of all agents that have asked.

        Raises:
          UnityError: See `Connection.exchange`.
        """
        inputs = unity.Input(command=unity.STEP)
        message = self.behavior.message
        inputs.actions[self.behavior.name].value.extend(
            message(actions[each]) for each in self._asking_ids(self.behavior.name)
        )
        for name, idle in self._idle.items():
            inputs.actions[name].value.extend([idle] * len(self._asking_ids(name)))
        return self._take(self._exchange(inputs))

    def idle_action(self, observation: Mapping[str, Any]) -> Any:
        """See `Behavior.idle_action`."""
        return self.behavior.idle_action(observation)

    def set_parameters(self, values: Mapping[str, float]) -> None:
        """Sets parameters of the environment, from its next reset or reading on."""
        for name, value in values.items():
            self._channels += parameter_message(name, float(value))

    def close(self) -> None:
        """Closes the connection, and ends the build."""
        self._connection.close()

    def _asking_ids(self, behavior: str) -> list[int]:
        """Returns the ids in the order in which Unity wants their actions."""
        infos = self._infos.get(behavior)
        return [info.id for info in infos.value if not info.is_done] if infos else []

    def _exchange(self, inputs: Any) -> Any:
        inputs.channels, self._channels = self._channels, b""
        output = self._connection.exchange(inputs)
        try:
            for statistic in statistics(output.output.channels):
                self.statistics[statistic.name] = statistic.value
        except ValueError as error:
            raise UnityError(f"Unity sent what is no message: {error}") from error
        return output

    def _remember(self, output: Any) -> None:
        for each in output.hello.behaviors:  # also such as appear later
            if each.name != self.behavior.name:
                self._idle[each.name] = idle_action(each)
        self._infos = dict(output.output.agents)

    def _take(self, output: Any) -> AgentSteps:
        self._remember(output)
        infos = output.output.agents[self.behavior.name].value
        asking = self.behavior.agents([info for info in infos if not info.is_done])
        ended = self.behavior.agents([info for info in infos if info.is_done])
        # An agent that ends at once, before it has asked, has no transition.
        known = {each: step for each, step in _last_steps(ended).items() if each in self._begun}
        self._begun.difference_update(ended.ids)
        steps = _steps(asking, self._begun)
        self._begun.update(asking.ids)
        return AgentSteps(steps, known)


def chosen_behavior(wanted: str | None, names: Sequence[str]) -> str:
    """Returns the name of the behavior that is trained.

    Args:
      wanted: Name, with or without the part after "?"; None if there is only one.
      names: Of all behaviors.

    Raises:
      ConfigError: If there is no such behavior, or several and none is chosen.
    """
    listed = ", ".join(names) or "none"
    if wanted is None:
        if len(names) == 1:
            return names[0]
        raise ConfigError(
            f"The Unity build has the behaviors {listed}; allowed is one, or choose one by name."
        )
    for name in names:
        if wanted in (name, name.split("?")[0]):
            return name
    plain = [name.split("?")[0] for name in names]
    raise ConfigError(
        f"The Unity build has no behavior {wanted!r}; it has {listed}.{did_you_mean(wanted, plain)}"
    )


def _steps(agents: Agents, begun: set[int]) -> dict[int, ts.TimeStep]:
    steps = {}
    for row, each in enumerate(agents.ids):
        step_type = ts.StepType.MID if each in begun else ts.StepType.FIRST
        reward = agents.rewards[row] if each in begun else np.float32(0)
        steps[each] = ts.TimeStep(step_type, reward, CONTINUES, _row(agents, row))
    return steps


def _last_steps(agents: Agents) -> dict[int, ts.TimeStep]:
    steps = {}
    for row, each in enumerate(agents.ids):
        discount = CONTINUES if agents.are_interrupted[row] else ENDS
        reward, observation = agents.rewards[row], _row(agents, row)
        steps[each] = ts.TimeStep(ts.StepType.LAST, reward, discount, observation)
    return steps


def _row(agents: Agents, row: int) -> dict[str, Any]:
    return {name: part[row] for name, part in agents.observations.items()}
