"""Turns the keys, or parts of a gamepad, that a person holds into actions."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tree
from numpy.typing import NDArray

from tfagents_system.core.action_masks import ACTION_MASK, Choices, has_mask
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.leaves import leaf_name
from tfagents_system.core.names import did_you_mean

END, DROP, NONE = "end", "drop", "none"
_PAIRS = (("left", "right"), ("down", "up"), ("a", "d"), ("s", "w"), ("f", "h"), ("g", "t"),
          ("j", "l"), ("k", "i"))  # fmt: skip
# Up is negative. Axes 2 and 5 are triggers, which rest at their ends.
_STICKS = (("axis0neg", "axis0pos"), ("axis1pos", "axis1neg"), ("axis3neg", "axis3pos"),
           ("axis4pos", "axis4neg"))  # fmt: skip
_LARGEST = 1e6  # no bound is larger: specs have the largest float32 in place of infinity
_FORM = "KEY=VALUE, KEY=COMPONENT:VALUE, none=VALUE, KEY=end or KEY=drop"


class Component(NamedTuple):
    """A number of an action."""

    name: str  # such as "action[0]"
    is_integer: bool
    low: float
    high: float

    @property
    def rest(self) -> float:
        """Its value while nothing is held: 0; for integers the middle of three, else the lowest."""
        if self.is_integer:
            return self.low + (self.high - self.low == 2)
        return min(max(0.0, self.low), self.high)

    @property
    def ends(self) -> tuple[float, float]:
        """The values of two opposite keys: its bounds, or -1 and 1 where it has none."""
        return (
            -1.0 if self.low < -_LARGEST else self.low,
            1.0 if self.high > _LARGEST else self.high,
        )


class Controls:
    """Maps inputs to components of the action, and to the end or drop of an episode.

    A component rests while nothing is held. If several inputs push a continuous one, the distances
    from rest add up, within the bounds; if several choose an integer, the newest counts.
    """

    def __init__(
        self, action_spec: Any, texts: Sequence[str], names: Collection[str], has_gamepad: bool
    ):
        """Takes the bindings of `texts`, in place of the defaults if they move any component.

        Args:
          action_spec: A nest of bounded ArraySpecs.
          texts: Such as "left=0:-1" (component 0 becomes -1), "space=1" (the only component becomes
            1), "none=1" (while nothing is held), "return=end", "backspace=drop".
          names: Names of all inputs.
          has_gamepad: Whether the defaults use a gamepad, too.

        Raises:
          ConfigError: If a text has another form, or names something that does not exist.
        """
        self._spec = action_spec
        leaves = tree.flatten_with_path(action_spec)
        self._choices = Choices([leaf for _, leaf in leaves])
        self._components = [c for path, leaf in leaves for c in _components(path, leaf)]
        self._rest = [component.rest for component in self._components]
        self._moves: dict[str, list[tuple[int, float]]] = {}
        self._commands: dict[str, str] = {}
        for text in texts:
            self._bind(text, names)
        if not self._moves:
            self._bind_defaults(has_gamepad)
        for key, command in (("return", END), ("backspace", DROP)):
            if key not in self._moves:
                self._commands.setdefault(key, command)

    def lines(self) -> list[str]:
        """Returns a line for each input, and for rest."""
        lines = []
        for key, moves in self._moves.items():
            parts = [f"{self._components[index].name} = {value:g}" for index, value in moves]
            lines.append(f"{key}: {', '.join(parts)}")
        rest = zip(self._components, self._rest, strict=True)
        lines.append(f"nothing: {', '.join(f'{c.name} = {value:g}' for c, value in rest)}")
        words = {END: "ends the episode, and keeps it", DROP: "drops the episode"}
        return lines + [f"{key}: {words[command]}" for key, command in self._commands.items()]

    def commands(self, pressed: Collection[str]) -> set[str]:
        """Returns END and DROP if an input for them is pressed."""
        return {command for key, command in self._commands.items() if key in pressed}

    def action(self, held: Mapping[str, float], observation: Any = None) -> Any:
        """Returns the action; a choice that the observation's mask forbids is the first allowed.

        Args:
          held: How far each input is pushed, in (0, 1]; the newest last.
          observation: A nest of arrays.
        """
        values = list(self._rest)
        for key, pushed in held.items():
            for index, value in self._moves.get(key, ()):
                if not self._components[index].is_integer:
                    values[index] += pushed * (value - self._rest[index])
                elif pushed > 0.5:
                    values[index] = value
        for index, component in enumerate(self._components):
            values[index] = min(max(values[index], component.low), component.high)
        if has_mask(observation):
            self._allow(values, observation[ACTION_MASK])
        leaves, begin = [], 0
        for leaf in tree.flatten(self._spec):
            size = int(np.prod(leaf.shape))
            array = np.array(values[begin : begin + size], leaf.dtype)
            leaves.append(array.reshape(leaf.shape))
            begin += size
        return tree.unflatten_as(self._spec, leaves)

    def _allow(self, values: list[float], mask: NDArray[Any]) -> None:
        integers = [index for index, c in enumerate(self._components) if c.is_integer]
        for index, allowed in zip(integers, self._choices.branches(mask), strict=True):
            low = self._components[index].low
            if not allowed[int(values[index] - low)]:
                values[index] = low + int(np.argmax(allowed))

    def _bind(self, text: str, names: Collection[str]) -> None:
        key, equals, rest = text.partition("=")
        if not equals or not key or not rest:
            raise ConfigError(f"--keys has {text!r}; expected {_FORM}.")
        if key != NONE and key not in names:
            raise ConfigError(
                f"--keys has {text!r}, and {key!r} is not a key.{did_you_mean(key, names)} Keys "
                "are named as left, a, space or return, and of a gamepad button0 or axis0pos."
            )
        if rest in (END, DROP) and key != NONE:
            self._commands[key] = rest
            return
        index, value = self._parsed(text, rest)
        if key == NONE:
            self._rest[index] = value
        else:
            self._moves.setdefault(key, []).append((index, value))

    def _parsed(self, text: str, rest: str) -> tuple[int, float]:
        """Returns the component and the value of COMPONENT:VALUE or VALUE."""
        first, colon, second = rest.partition(":")
        number = len(self._components)
        if not colon and number > 1:
            raise ConfigError(
                f"--keys has {text!r}, and an action has {number} components: say which, as "
                f"KEY=COMPONENT:VALUE, from 0 to {number - 1}."
            )
        try:
            index, value = int(first) if colon else 0, float(second if colon else first)
        except ValueError:
            raise ConfigError(f"--keys has {text!r}; expected {_FORM}.") from None
        if not 0 <= index < number:
            raise ConfigError(
                f"--keys has {text!r}, and an action has {number} components; expected 0 to "
                f"{number - 1}."
            )
        component = self._components[index]
        is_allowed = component.low <= value <= component.high
        if not is_allowed or component.is_integer and value != int(value):
            kind = "an integer" if component.is_integer else "a number"
            raise ConfigError(
                f"--keys has {text!r}; expected {kind} from {component.low:g} to "
                f"{component.high:g} for {component.name}."
            )
        return index, value

    def _bind_defaults(self, has_gamepad: bool) -> None:
        pairs, sticks = iter(_PAIRS), iter(_STICKS if has_gamepad else ())
        for index, component in enumerate(self._components):
            if component.is_integer and component.high - component.low > 2:
                continue
            for keys in (next(pairs, ()), next(sticks, ())):
                for key, value in zip(keys, component.ends, strict=False):
                    self._moves[key] = [(index, value)]
        integers = [index for index, c in enumerate(self._components) if c.is_integer]
        for index in integers[:1]:  # the digits, and the gamepad's buttons
            low, high = self._components[index].low, self._components[index].high
            for choice in range(min(int(high - low) + 1, 10)):
                for key in (str(choice), f"button{choice}")[: 1 + has_gamepad]:
                    self._moves[key] = [(index, low + choice)]


def _components(path: Sequence[Any], leaf: Any) -> list[Component]:
    name = leaf_name("action", *path)
    is_integer = np.issubdtype(leaf.dtype, np.integer)
    low, high = (np.ravel(np.broadcast_to(b, leaf.shape)) for b in (leaf.minimum, leaf.maximum))
    return [
        Component(f"{name}[{index}]" if leaf.shape else name, is_integer, float(a), float(b))
        for index, (a, b) in enumerate(zip(low, high, strict=True))
    ]
