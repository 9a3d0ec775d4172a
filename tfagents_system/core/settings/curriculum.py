"""Computes environment parameters from the iteration: a pure function."""

import bisect
import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfagents_system.core.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class Ramp:
    """The values of one environment parameter, each from a given iteration on."""

    iterations: tuple[int, ...]  # strictly ascending
    values: tuple[int | float, ...]  # same length

    def value_at(self, iteration: int) -> int | float | None:
        """Returns the value at `iteration`; None before the first, when the constructor's holds."""
        index = bisect.bisect_right(self.iterations, iteration)
        return self.values[index - 1] if index else None


@dataclasses.dataclass(frozen=True)
class Curriculum:
    """All ramps of an experiment.

    A worker remembers the state that it last applied, and calls `set_state` when it differs:

        state = curriculum.state_at(iteration)
        if state != applied: collect_env.set_state(state)
    """

    ramps: Mapping[str, Ramp]

    @classmethod
    def from_config(cls, section: Mapping[str, Any], where: str) -> "Curriculum":
        """Builds the ramps of a `curriculum` section that fits the JSON schema.

        The values of a ramp are `np.linspace(lo, hi, len(iters))`, cast to the type of `lo`.

        Raises:
          ConfigError: If the iterations of a ramp do not ascend; `where` names the file.
        """
        ramps = {}
        for name, entry in section.items():
            iterations = tuple(int(iteration) for iteration in entry["iters"])
            if any(later <= earlier for earlier, later in itertools.pairwise(iterations)):
                raise ConfigError(
                    f"{where}: curriculum.{name}.iters is {list(iterations)}; "
                    "allowed are strictly ascending iterations."
                )
            low, high = entry["range"]
            cast = type(low)
            values = tuple(
                cast(value) for value in np.linspace(float(low), float(high), len(iterations))
            )
            ramps[name] = Ramp(iterations, values)
        return cls(ramps)

    def state_at(self, iteration: int) -> dict[str, int | float]:
        """Returns {name: value} for every ramp that has begun at `iteration`."""
        values = {name: ramp.value_at(iteration) for name, ramp in self.ramps.items()}
        return {name: value for name, value in values.items() if value is not None}

    def is_over(self, iteration: int) -> bool:
        """Returns whether no value changes after `iteration`."""
        return all(ramp.iterations[-1] <= iteration for ramp in self.ramps.values())
