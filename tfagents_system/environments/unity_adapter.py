"""Adapts builds of Unity, and the Editor, that use ML-Agents."""

from collections.abc import Mapping, Sequence
from typing import Any

from tf_agents.typing import types

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.hyperparameters import is_count, is_number
from tfagents_system.environments.agents_environment import AgentsEnvironment
from tfagents_system.environments.unity import specs as specs_of
from tfagents_system.environments.unity.agents import UnityAgents
from tfagents_system.environments.unity.behaviors import Behavior
from tfagents_system.environments.unity.connection import Connection
from tfagents_system.environments.unity.side_channels import (
    EngineSettings,
    engine_settings,
    parameter_messages,
)

_MAX_SEED = 2**31  # Unity has int32
_MAX_PORT = 2**16 - 1


class UnityEnvironment(AgentsEnvironment):
    """Adapts one behavior of a Unity build; `load` makes it.

    Observations are a dict by sensor: images uint8 [H, W, C], all else float32; with discrete
    actions there is also `action_mask`. Actions are float32 [A] in [-1, 1], int32 [K], or a dict
    of both, `continuous` and `discrete`.
    """

    def __init__(
        self,
        build: str | None,
        behavior: str | None,
        seed: int | None,
        connection_kwargs: Mapping[str, Any],
        engine: EngineSettings,
        parameters: Mapping[str, float],
        specs: Mapping[str, Any] | None,
    ):
        """Connects to Unity if there are no `specs`; see `load`."""
        super().__init__()
        self._build, self._wanted, self._engine = build, behavior, engine
        self._connection_kwargs = dict(connection_kwargs)
        self._seed = seed
        self._parameters = dict(parameters)
        self._agents: UnityAgents | None = None
        self._expected = Behavior.from_json(specs) if specs else None
        if self._expected is None:
            self.behavior = self.agents.behavior
        else:
            self.behavior = self._expected
            self._wanted = behavior or self.behavior.name

    @property
    def agents(self) -> UnityAgents:
        """All agents of the behavior; connects to Unity at the first use.

        Raises:
          ConfigError: If there is no such build or behavior, or it has other specs than expected.
          UnityError: If Unity does not connect.
        """
        if self._agents is None:
            seed = (self._seed or 0) % _MAX_SEED
            connection = Connection(self._build, seed=seed, **self._connection_kwargs)
            agents = UnityAgents(connection, self._wanted, self._engine, self._parameters)
            if self._expected is not None and self._expected != agents.behavior:
                agents.close()
                raise ConfigError(
                    f"The Unity build has the specs {agents.behavior.to_json()}; expected are "
                    f"{self._expected.to_json()}, with which the project was made."
                )
            self._agents = agents
        return self._agents

    def observation_spec(self) -> types.NestedArraySpec:
        """Returns the spec of observations."""
        return specs_of.observation_spec(self.behavior)

    def action_spec(self) -> types.NestedArraySpec:
        """Returns the spec of actions."""
        return specs_of.action_spec(self.behavior)

    def seed(self, seed: int) -> int:
        """Seeds a simulator that has not started yet. Returns the seed."""
        self._seed = int(seed)
        return self._seed

    def get_info(self) -> dict[str, Any]:
        """Returns the newest statistics of Unity: {"statistics": {name: value}}."""
        return {"statistics": self._agents.statistics if self._agents else {}}

    def set_state(self, state: Mapping[str, float]) -> None:
        """Sets parameters of the environment; a curriculum calls this.

        Raises:
          ConfigError: If Unity cannot have such a parameter.
        """
        if self._agents is not None:
            self._agents.set_parameters(state)
        self._parameters.update(state)

    def close(self) -> None:
        """Closes the connection, and ends the build."""
        if self._agents is not None:
            self._agents.close()

    @property
    def num_slots(self) -> int:
        """Number of agents that act at once, before any has acted twice; connects to Unity."""
        return self.agents.num_agents

    def slot_info(self, slot: int) -> dict[str, Any]:
        """Returns the info, which is the same for all agents."""
        return self.get_info()


def load(
    build: str | None,
    behavior: str | None = None,
    seed: int | None = None,
    *,
    num_areas: int = 1,
    parameters: Mapping[str, float] | None = None,
    engine: Mapping[str, float] | None = None,
    arguments: Sequence[str] = (),
    port: int | None = None,
    timeout_secs: float = 60.0,
    specs: Mapping[str, Any] | None = None,
) -> UnityEnvironment:
    """Returns a behavior of a Unity build as a PyEnvironment.

    Args:
      build: Path of the executable; None for the Editor, in which you then press Play.
      behavior: Name of the behavior; None if the build has only one.
      seed: Seed of the simulator's random numbers.
      num_areas: Copies of the scene.
      parameters: Parameters of the environment.
      engine: Settings of the engine that differ from ML-Agents' defaults, such as
        {"time_scale": 1.0}; see `EngineSettings`.
      arguments: Arguments of the build, such as "-nographics", with which there are no cameras.
      port: Of 127.0.0.1; None is a free one, or 5004 for the Editor.
      timeout_secs: Longest time that Unity may take to start or to answer.
      specs: `UnityEnvironment.behavior.to_json()`: with it, no build is needed before the first
        step.

    Raises:
      ConfigError: If an argument is wrong, or the build does not fit.
    """
    connection_kwargs = {
        "num_areas": num_areas, "arguments": arguments, "port": port, "timeout_secs": timeout_secs,
    }  # fmt: skip
    _check_connection(**connection_kwargs)  # with specs, the connection is only made later
    parameter_messages(parameters or {})  # rejects wrong ones before the build starts
    return UnityEnvironment(
        build, behavior, seed, connection_kwargs, engine_settings(engine or {}),
        parameters or {}, specs,
    )  # fmt: skip


def _check_connection(num_areas: Any, arguments: Any, port: Any, timeout_secs: Any) -> None:
    """Raises ConfigError unless a `Connection` can have these arguments."""
    # A string would be split into letters.
    is_sequence = isinstance(arguments, Sequence) and not isinstance(arguments, str)
    are_texts = is_sequence and all(isinstance(each, str) for each in arguments)
    example = tuple(arguments.split()) if isinstance(arguments, str) else ("-nographics",)
    is_port = port is None or (is_count(port, 1) and port <= _MAX_PORT)
    is_time = is_number(timeout_secs) and timeout_secs > 0
    for name, value, is_allowed, allowed in (
        ("num_areas", num_areas, is_count(num_areas, 1), "an integer >= 1"),
        ("arguments", arguments, are_texts, f"a list of texts, such as {example!r}"),
        ("port", port, is_port, f"None, or an integer from 1 to {_MAX_PORT}"),
        ("timeout_secs", timeout_secs, is_time, "a finite number > 0"),
    ):
        if not is_allowed:
            raise ConfigError(f"{name}, of unity_adapter.load, is {value!r}; expected {allowed}.")
