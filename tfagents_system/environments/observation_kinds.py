"""Tells which arrays of an observation are lists of entities, as the settings name them."""

from collections.abc import Sequence

from tf_agents.environments import py_environment

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.observation_kinds import ENTITIES, marked
from tfagents_system.environments.renamed_specs import RenamedSpecs, named_specs


class ObservationKinds(RenamedSpecs):
    """Names specs of observations as `core/observation_kinds.py` finds them."""

    def __init__(self, environment: py_environment.PyEnvironment, entities: Sequence[str] = ()):
        """Wraps and owns `environment`.

        Args:
          environment: Its observations stay as they are.
          entities: Names of the lists of entities, see `array_name`.

        Raises:
          ConfigError: If there is no such array, or it has another number of axes.
        """
        specs = named_specs(environment)
        names: dict[str, str] = {}
        for setting, mark, own in (("entity_observations", ENTITIES, entities),):
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
                names[name] = marked(names.get(name, specs[name].name), mark)
        super().__init__(environment, names)
