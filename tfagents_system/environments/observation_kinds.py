"""Tells which arrays of an observation are entities or goals, as the settings name them."""

from collections.abc import Sequence

from tf_agents.environments import py_environment

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.observation_kinds import ENTITIES, GOAL, marked, unmarked
from tfagents_system.environments.renamed_specs import RenamedSpecs, named_specs


class ObservationKinds(RenamedSpecs):
    """Names specs of observations as `core/observation_kinds.py` finds them."""

    def __init__(
        self,
        environment: py_environment.PyEnvironment,
        entities: Sequence[str],
        goals: Sequence[str],
        has_goals: bool = True,
    ):
        """Wraps and owns `environment`.

        Args:
          environment: Its observations stay as they are.
          entities: Names of the lists of entities, see `array_name`.
          goals: Names of the goals.
          has_goals: False makes goals arrays like others, also those of the environment itself.

        Raises:
          ConfigError: If there is no such array, or it has another number of axes.
        """
        specs = named_specs(environment)
        names = {name: spec.name for name, spec in specs.items()}
        for setting, mark, own in (
            ("entity_observations", ENTITIES, entities),
            ("goal_observations", GOAL, goals),
        ):
            for name in own:
                where = f"TrainParams.{setting} has {name!r}"
                if name not in specs:
                    raise ConfigError(
                        f"{where}, which the observation of the environment has not; allowed are "
                        f"{', '.join(specs)}."
                    )
                shape = list(specs[name].shape)
                if mark == ENTITIES and len(shape) != 2:
                    raise ConfigError(
                        f"{where}, whose shape is {shape}; allowed are arrays [most entities, "
                        "features]."
                    )
                names[name] = marked(names[name], mark)
        if not has_goals:
            names = {name: unmarked(own, GOAL) if own else own for name, own in names.items()}
        super().__init__(environment, names)
