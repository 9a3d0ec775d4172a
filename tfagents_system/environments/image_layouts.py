"""Tells which arrays of an observation are images, where their shape does not."""

from collections.abc import Mapping

from tf_agents.environments import py_environment
from tf_agents.specs import array_spec

from tfagents_system.core.errors import ConfigError
from tfagents_system.data.images import GRAY, VECTOR, name_with_layout
from tfagents_system.environments.renamed_specs import RenamedSpecs, named_specs


class ImageLayouts(RenamedSpecs):
    """Names specs of observations such that `data/images.py` finds the layouts that are given."""

    def __init__(self, environment: py_environment.PyEnvironment, layouts: Mapping[str, str]):
        """Wraps and owns `environment`.

        Args:
          environment: Its observations stay as they are.
          layouts: By names of arrays, see `array_name`.

        Raises:
          ConfigError: If there is no such array, or it has another number of axes.
        """
        specs = named_specs(environment)
        for name, layout in layouts.items():
            _check(name, layout, specs)
        names = {
            name: name_with_layout(specs[name].name, layout) for name, layout in layouts.items()
        }
        super().__init__(environment, names)


def _check(name: str, layout: str, specs: Mapping[str, array_spec.ArraySpec]) -> None:
    where = f"TrainParams.image_layouts has {layout!r} for {name!r}"
    if name not in specs:
        raise ConfigError(
            f"{where}, which the observation of the environment has not; allowed are "
            f"{', '.join(specs)}."
        )
    shape = specs[name].shape
    if layout != VECTOR and len(shape) != len(layout):
        allowed = "HWC, CHW or vector" if len(shape) == 3 else f"{GRAY} or vector"
        allowed = allowed if len(shape) in (2, 3) else VECTOR
        raise ConfigError(f"{where}, whose shape is {list(shape)}; allowed is {allowed} then.")
