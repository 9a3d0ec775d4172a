"""Decodes Unity's behaviors: observations and actions in messages. Imports no TensorFlow."""

import dataclasses
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tfagents_system.core.action_masks import ACTION_MASK
from tfagents_system.core.errors import ConfigError
from tfagents_system.environments.unity import messages as unity

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


class Sensor(NamedTuple):
    """A sensor of a behavior: the leaf `name` of its observations."""

    name: str
    shape: tuple[int, ...]  # images [H, W, C], whatever the package's layout
    dtype: str  # uint8 of compressed images, otherwise float32
    is_channels_first: bool  # on the wire
    is_list: bool = False  # of entities; rows of zeros stand for absent ones
    is_goal: bool = False


class Agents(NamedTuple):
    """Some agents of a behavior at one time; n of them."""

    ids: list[int]  # of this episode; the next one gets another
    observations: dict[str, NDArray[Any]]  # [n, ...] by leaf
    rewards: NDArray[np.float32]  # [n], since the last decision, including the group's rewards
    are_interrupted: NDArray[np.bool_]  # [n], ended by a time limit


@dataclasses.dataclass(frozen=True)
class Behavior:
    """The observations and actions of one behavior's agents, and their encoding.

    Observations are a dict of sensors, and of `action_mask` if there are discrete actions. The
    action is float32 [A] in [-1, 1] if there are only continuous ones, int32 [K] if there are only
    branches, otherwise a dict of both, `continuous` and `discrete`.
    """

    name: str
    num_continuous: int
    branches: tuple[int, ...]  # the number of integers in each, at least 2
    sensors: tuple[Sensor, ...]
    fixed_branches: tuple[int, ...] = ()  # places on the wire of branches with 1 integer: always 0

    @classmethod
    def read(cls, description: Any, infos: Sequence[Any]) -> "Behavior":
        """Returns the behavior that messages describe.

        Args:
          description: A message Behavior.
          infos: Messages AgentInfo of its agents, which have the sensors.

        Raises:
          ConfigError: If it has no agents yet, or no actions.
        """
        name = description.name
        if not infos:
            raise ConfigError(
                f"The behavior {name} has no agents at the first step, so that its sensors are "
                "unknown. Create one at the start of the scene."
            )
        num_continuous, sizes = _actions(description)
        return cls.with_sizes(name, num_continuous, sizes, _sensors(infos[0].observations))

    @classmethod
    def with_sizes(
        cls, name: str, num_continuous: int, sizes: Sequence[int], sensors: tuple[Sensor, ...]
    ) -> "Behavior":
        """Returns the behavior for the `sizes` of all branches; a size of 1 leaves no choice.

        Raises:
          ConfigError: If it has no actions.
        """
        branches = tuple(size for size in sizes if size != 1)
        fixed = tuple(place for place, size in enumerate(sizes) if size == 1)
        if not num_continuous and not branches:
            shown = f", only branches of the sizes {list(sizes)}" if sizes else ""
            raise ConfigError(
                f"The behavior {name} has no actions to choose{shown}; expected one or more."
            )
        return cls(name, num_continuous, branches, sensors, fixed)

    @classmethod
    def from_json(cls, values: Any) -> "Behavior":
        """Returns the behavior of `to_json`."""
        sensors = (Sensor(**{**each, "shape": tuple(each["shape"])}) for each in values["sensors"])
        fixed = tuple(values.get("fixed_branches", ()))  # older configs have none
        branches = tuple(values["branches"])
        fields = {"branches": branches, "sensors": tuple(sensors), "fixed_branches": fixed}
        return cls(**{**values, **fields})

    def to_json(self) -> dict[str, Any]:
        """Returns the behavior as a JSON value."""
        return {**vars(self), "sensors": [sensor._asdict() for sensor in self.sensors]}

    def idle_action(self, observation: Mapping[str, Any]) -> Any:
        """Returns the action of an agent that stands still: zeros, or first allowed integers."""
        continuous = np.zeros(self.num_continuous, np.float32)
        if not self.branches:
            return continuous
        masks = np.split(observation[ACTION_MASK], np.cumsum(self.branches)[:-1])
        discrete = np.array([mask.argmax() for mask in masks], np.int32)
        if not self.num_continuous:
            return discrete
        return {"continuous": continuous, "discrete": discrete}

    def agents(self, infos: Sequence[Any]) -> Agents:
        """Decodes messages AgentInfo."""
        observations = {
            sensor.name: _stack([_decode(info.observations[k], sensor) for info in infos], sensor)
            for k, sensor in enumerate(self.sensors)
        }
        if self.branches:
            observations[ACTION_MASK] = self._masks(infos)
        return Agents(
            [info.id for info in infos],
            observations,
            np.array([info.reward + info.group_reward for info in infos], np.float32),
            np.array([info.is_interrupted for info in infos], bool),
        )

    def actions(self, messages: Sequence[Any]) -> Any:
        """Returns the actions [n, ...] in messages Action, as `message` takes each."""
        continuous = [list(each.continuous) or list(each.of_old_api) for each in messages]
        discrete = [list(each.discrete) or list(each.of_old_api) for each in messages]
        numbers = np.array(continuous if self.num_continuous else [], np.float32)
        integers = [self.without_fixed(each) for each in discrete] if self.branches else []
        choices = np.array(integers, np.int32)
        if not self.branches:
            return numbers
        return {"continuous": numbers, "discrete": choices} if self.num_continuous else choices

    def message(self, action: Any) -> Any:
        """Returns the message Action of an agent's action."""
        continuous, discrete = self.parts(action)
        return _action(continuous.tolist(), discrete.tolist())

    def parts(self, action: Any) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Returns the continuous numbers and the integers of an action, of all branches."""
        if isinstance(action, dict):
            continuous, discrete = action["continuous"], action["discrete"]
        else:
            continuous, discrete = ((), action) if self.branches else (action, ())
        integers = self._with_fixed(discrete, 0) if self.fixed_branches else discrete
        return np.asarray(continuous, np.float32), np.asarray(integers, np.int32)

    def without_fixed(self, values: Sequence[Any]) -> list[Any]:
        """Returns the values of `branches`, from those of all branches on the wire."""
        return [value for place, value in enumerate(values) if place not in self.fixed_branches]

    def _with_fixed(self, values: Iterable[Any], of_fixed: Any) -> list[Any]:
        """Returns the values of all branches on the wire, from those of `branches`."""
        every = list(values)
        for place in self.fixed_branches:
            every.insert(place, of_fixed)
        return every

    def _masks(self, infos: Sequence[Any]) -> NDArray[np.float32]:
        """Returns 1 for each allowed integer; on the wire, true forbids and no mask allows all."""
        sizes = self._with_fixed(self.branches, 1)
        forbidden = [list(info.forbidden) or [False] * sum(sizes) for info in infos]
        is_chosen = np.repeat(np.array(sizes) != 1, sizes)
        return 1 - np.array(forbidden, np.float32).reshape(len(infos), sum(sizes))[:, is_chosen]


def idle_action(description: Any) -> Any:
    """Returns the message Action with zeros for an agent of a behavior."""
    num_continuous, branches = _actions(description)
    return _action([0.0] * num_continuous, [0] * len(branches))


def _action(continuous: list[float], discrete: list[int]) -> Any:
    return unity.Action(
        continuous=continuous, discrete=discrete, of_old_api=[*continuous, *discrete]
    )


def _actions(description: Any) -> tuple[int, tuple[int, ...]]:
    """Returns the number of continuous actions, and the sizes of the branches."""
    spec = description.action_spec
    if spec.num_continuous or spec.branch_sizes:
        return spec.num_continuous, tuple(spec.branch_sizes)
    sizes = tuple(description.sizes_of_old_api)  # before API 1.3
    if description.type_of_old_api == unity.CONTINUOUS:
        return (sizes[0] if sizes else 0), ()
    return 0, sizes


def _sensors(observations: Sequence[Any]) -> tuple[Sensor, ...]:
    sensors: list[Sensor] = []
    for observation in observations:
        shape, properties = tuple(observation.shape), tuple(observation.dimension_properties)
        dtype = "uint8" if observation.compression == unity.PNG else "float32"
        name = leaf_name(observation.name, sensors)
        sensors.append(make_sensor(name, shape, dtype, properties, observation.type))
    return tuple(sensors)


def make_sensor(
    name: str, shape: tuple[int, ...], dtype: str, properties: tuple[int, ...], kind: int
) -> Sensor:
    """Returns a sensor by its shape on the wire, the properties of its dimensions and its type."""
    # Packages 3.0 and later send images as [C, H, W], where the first dimension has no property.
    is_channels_first = len(shape) == 3 and properties[:1] == (unity.NO_PROPERTY,)
    if is_channels_first:
        shape = (*shape[1:], shape[0])
    is_list = len(shape) == 2 and properties == (unity.VARIABLE_SIZE, unity.NO_PROPERTY)
    return Sensor(name, shape, dtype, is_channels_first, is_list, kind == unity.GOAL_SIGNAL)


def leaf_name(name: str, others: Sequence[Sensor]) -> str:
    """Returns a leaf name for a sensor's name, different from those of `others`."""
    leaf = "".join(c if c.isascii() and c.isalnum() else "_" for c in name) or "observation"
    is_taken = leaf in {ACTION_MASK, *(sensor.name for sensor in others)}
    return f"{leaf}_{len(others)}" if is_taken else leaf


def _stack(rows: Sequence[NDArray[Any]], sensor: Sensor) -> NDArray[Any]:
    return np.stack(rows) if rows else np.zeros((0, *sensor.shape), sensor.dtype)


def _decode(observation: Any, sensor: Sensor) -> NDArray[Any]:
    """Returns an observation of the sensor's shape and dtype."""
    if observation.compression == unity.PNG:
        return _decode_images(observation, sensor.shape[-1])
    values = np.array(observation.floats.data, np.float32)
    if not sensor.is_channels_first:
        return values.reshape(sensor.shape)
    height, width, channels = sensor.shape
    return np.moveaxis(values.reshape(channels, height, width), 0, -1)


def _decode_images(observation: Any, num_channels: int) -> NDArray[np.uint8]:
    """Decodes concatenated PNGs of three channels each.

    The mapping tells the channel to which each of theirs belongs; several are averaged.
    """
    data, begin = observation.compressed, 0
    parts = []
    while begin >= 0:
        with Image.open(io.BytesIO(data[begin:])) as image:
            parts.append(np.atleast_3d(np.asarray(image)))
        begin = data.find(_PNG_SIGNATURE, begin + len(_PNG_SIGNATURE))
    joined = np.concatenate(parts, axis=-1)
    mapping = list(observation.channel_mapping)
    if not mapping:
        mapping = [0, 0, 0] if num_channels == 1 else list(range(num_channels))
    if mapping == list(range(joined.shape[-1])):
        return joined
    of_channels = [[i for i, to in enumerate(mapping) if to == c] for c in range(num_channels)]
    means = [joined[..., of_channel].mean(axis=-1).round() for of_channel in of_channels]
    return np.stack(means, axis=-1).astype(np.uint8)
