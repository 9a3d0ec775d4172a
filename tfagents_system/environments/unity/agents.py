"""The agents of one behavior in a Unity build or the Editor."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.names import did_you_mean
from tfagents_system.environments.agent_slots import (
    CONTINUES,
    ENDS,
    MAX_STEPS_TO_MEET,
    AgentSteps,
    most_at_once,
)
from tfagents_system.environments.unity import messages as unity
from tfagents_system.environments.unity.behaviors import Agents, Behavior, idle_action
from tfagents_system.environments.unity.connection import Connection, UnityError
from tfagents_system.environments.unity.side_channels import (
    DEFAULT_ENGINE,
    EngineSettings,
    engine_message,
    parameter_messages,
    statistics,
)


class UnityAgents:
    """Resets and steps all agents of one behavior.

        agents = UnityAgents(Connection("builds/3DBall.x86_64"))
        steps = agents.reset()
        steps = agents.step({id: action for id in steps.asking})
        agents.close()

    An id belongs to an episode: an agent whose episode ends gets a new id with its next first step,
    which comes together with the last one. Agents of other behaviors get zeros as actions.
    """

    are_over = False  # a simulator of Unity begins new episodes by itself

    def __init__(
        self,
        connection: Connection,
        behavior: str | None = None,
        engine: EngineSettings = DEFAULT_ENGINE,
        parameters: Mapping[str, float] | None = None,
    ):
        """Resets and steps the simulator, to learn its behaviors and agents; owns `connection`.

        Args:
          connection: To Unity.
          behavior: Name, with or without the part after "?"; None if there is only one.
          engine: Sent with the first reset.
          parameters: Of the environment; sent with it, too: a scene may read them only once.

        Raises:
          ConfigError: If there is no such behavior, or several and none is chosen, or a parameter
            is wrong.
          UnityError: See `Connection.exchange`.
        """
        self._connection = connection
        self.statistics: dict[str, float] = {}  # the newest of each that Unity has sent
        self._begun: set[int] = set()  # ids that have had their first step
        self._descriptions: dict[str, Any] = {}  # messages Behavior, by name
        self._idle: dict[str, Any] = {}  # messages Action of agents that stand still
        try:
            self._channels = engine_message(engine) + parameter_messages(parameters or {})
            output = self._meet(behavior)
            name = chosen_behavior(behavior, list(self._descriptions))
            infos = output.output.agents[name].value
            self.behavior = Behavior.read(self._descriptions[name], infos)
            self.num_agents = most_at_once(self, self._take(output))
        except BaseException:
            connection.close()
            raise

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
        inputs = self._idle_inputs(self._idle.keys() - {self.behavior.name})
        message = self.behavior.message
        inputs.actions[self.behavior.name].value.extend(
            message(actions[each]) for each in self._asking_ids(self.behavior.name)
        )
        return self._take(self._exchange(inputs))

    def idle_action(self, observation: Mapping[str, Any]) -> Any:
        """See `Behavior.idle_action`."""
        return self.behavior.idle_action(observation)

    def set_parameters(self, values: Mapping[str, float]) -> None:
        """Sets parameters of the environment, from its next reset or reading on."""
        self._channels += parameter_messages(values)

    def close(self) -> None:
        """Closes the connection, and ends the build."""
        self._connection.close()

    def _meet(self, wanted: str | None) -> Any:
        """Resets the simulator, and steps it until agents of the wanted behavior ask.

        Unity describes a behavior when its first agent asks, which may be later than others do.
        """
        output = self._exchange(unity.Input(command=unity.RESET))
        for _ in range(MAX_STEPS_TO_MEET):
            self._remember(output)
            if wanted is None or any(_is_named(wanted, name) for name in self._descriptions):
                break
            output = self._exchange(self._idle_inputs(self._idle))
        return output

    def _idle_inputs(self, behaviors: Iterable[str]) -> Any:
        """Returns the message that makes agents of `behaviors` stand still."""
        inputs = unity.Input(command=unity.STEP)
        for name in behaviors:
            inputs.actions[name].value.extend([self._idle[name]] * len(self._asking_ids(name)))
        return inputs

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
            raise UnityError(f"Unity sent something that is not a message: {error}") from error
        return output

    def _remember(self, output: Any) -> None:
        for each in output.hello.behaviors:  # also those that appear later
            self._descriptions[each.name], self._idle[each.name] = each, idle_action(each)
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
            f"The Unity build has the behaviors {listed}; expected one, or choose one by name."
        )
    for name in names:
        if _is_named(wanted, name):
            return name
    plain = [name.split("?")[0] for name in names]
    raise ConfigError(
        f"The Unity build has no behavior {wanted!r}; it has {listed}.{did_you_mean(wanted, plain)}"
    )


def _is_named(wanted: str, name: str) -> bool:
    """Returns whether a behavior is the one that a user calls `wanted`."""
    return wanted in (name, name.split("?")[0])


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
