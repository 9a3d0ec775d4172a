"""Computes environment parameters from iteration, lessons and seed: a pure function."""

import bisect
import dataclasses
import itertools
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.lessons import Lesson, lessons_of
from tfagents_system.core.settings.samplers import (
    Custom,
    DrawCustom,
    Sampler,
    check_keys,
    sampler_of,
)


@dataclasses.dataclass(frozen=True)
class Ramp:
    """The values of one environment parameter, each from a given iteration on."""

    iterations: tuple[int, ...]  # strictly ascending
    values: tuple[int | float, ...]  # same length

    def value_at(self, iteration: int) -> int | float | None:
        """Returns the value at `iteration`; None before the first, when the constructor's holds."""
        index = bisect.bisect_right(self.iterations, iteration)
        return self.values[index - 1] if index else None


def _draw_nothing(name: str, settings: Mapping[str, Any], generator: np.random.Generator) -> float:
    raise ConfigError(f"{name} has a custom sampler, for which there is no TrainParams.")


@dataclasses.dataclass(frozen=True)
class Curriculum:
    """All parameters of the environments that change during an experiment.

    Before each episode, a worker sets what differs from the state that it applied last:

        state = curriculum.state_at(iteration, lessons, seed)
        if state != applied: collect_env.set_state(state)
    """

    ramps: Mapping[str, Ramp] = dataclasses.field(default_factory=dict)
    courses: Mapping[str, Sequence[Lesson]] = dataclasses.field(default_factory=dict)
    samplers: Mapping[str, Sampler] = dataclasses.field(default_factory=dict)

    @classmethod
    def from_config(
        cls, section: Mapping[str, Any], where: str, draw_custom: DrawCustom = _draw_nothing
    ) -> "Curriculum":
        """Builds the parameters of a `curriculum` section that fits the JSON schema.

        The values of a ramp are `np.linspace(lo, hi, len(iters))`, cast to the type of `lo`.

        Args:
          section: Entries by the parameter's name; those without `iters` and `range` are checked
            here.
          where: The file, for messages.
          draw_custom: Draws the values of custom samplers.

        Raises:
          ConfigError: If the iterations of a ramp do not ascend, or an entry is wrong.
        """
        ramps, courses, samplers = {}, {}, {}
        for name, entry in section.items():
            place = f"{where}: curriculum.{name}"
            if "iters" in entry:
                ramps[name] = _ramp_of(entry, place)
            elif "sampler" in entry:
                samplers[name] = sampler_of(entry, place, name, draw_custom)
            else:
                check_keys(entry, ("lessons",), ("iters", "range", "sampler"), place)
                courses[name] = lessons_of(entry["lessons"], f"{place}.lessons", name, draw_custom)
        return cls(ramps, courses, samplers)

    def state_at(
        self, iteration: int, lessons: Sequence[int] = (), seed: int = 0
    ) -> dict[str, int | float]:
        """Returns {name: value} of an episode, for all parameters whose values have begun.

        Args:
          iteration: When the episode begins.
          lessons: The lesson of each of `courses`, from 0; empty: the first ones.
          seed: Of the episode; each parameter draws its own numbers from it.
        """
        values = {name: ramp.value_at(iteration) for name, ramp in self.ramps.items()}
        state = {name: value for name, value in values.items() if value is not None}
        current = lessons or [0] * len(self.courses)
        drawn = {
            name: course[index].value
            for (name, course), index in zip(self.courses.items(), current, strict=True)
        }
        for name, sampler in (drawn | dict(self.samplers)).items():
            generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
            state[name] = sampler.draw(generator)
        return state

    def custom_samplers(self) -> list[Custom]:
        """Returns the custom samplers, also of later lessons; they call `sample_parameter`."""
        lessons = (lesson.value for course in self.courses.values() for lesson in course)
        samplers = (*self.samplers.values(), *lessons)
        return [sampler for sampler in samplers if isinstance(sampler, Custom)]

    def unreached(self, num_iter: int) -> list[str]:
        """Returns a note for each ramp with iterations beyond `num_iter`, which never happen."""
        return [
            f"curriculum.{name} changes at iteration {ramp.iterations[-1]}, which training does "
            f"not reach: num_iter is {num_iter}."
            for name, ramp in self.ramps.items()
            if ramp.iterations[-1] >= num_iter
        ]

    def is_over(self, iteration: int, lessons: Sequence[int] = ()) -> bool:
        """Returns whether neither a later iteration nor another lesson changes anything."""
        last = [len(course) - 1 for course in self.courses.values()]
        has_last = list(lessons or [0] * len(last)) == last
        return has_last and all(r.iterations[-1] <= iteration for r in self.ramps.values())


def _ramp_of(entry: Mapping[str, Any], where: str) -> Ramp:
    iterations = tuple(int(iteration) for iteration in entry["iters"])
    if any(later <= earlier for earlier, later in itertools.pairwise(iterations)):
        raise ConfigError(
            f"{where}.iters is {list(iterations)}; expected strictly ascending iterations."
        )
    low, high = entry["range"]
    cast = type(low)
    values = (cast(value) for value in np.linspace(float(low), float(high), len(iterations)))
    return Ramp(iterations, tuple(values))
