"""Names the keys of a keyboard, and the buttons and axes of a gamepad, in pygame's events.

An input is a number in [0, 1]: 1 while a key or button is held, and for each of the two directions
of an axis how far it is pushed.
"""

import functools
import os
from collections.abc import Iterator
from typing import Any

DEAD_ZONE = 0.1  # share of an axis within which it counts as released: no stick rests at 0
MOST_AXES, MOST_BUTTONS = 8, 32
DIRECTIONS = ("left", "right", "down", "up")  # arrow keys, and a gamepad's directional pad
BUTTONS = [f"button{index}" for index in range(MOST_BUTTONS)]
AXES = [f"axis{index}{side}" for index in range(MOST_AXES) for side in ("neg", "pos")]


@functools.cache  # called for each event
def key_names() -> dict[int, str]:
    """Returns the names of the keys by pygame's numbers: "left", "a", "space", "return"."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    import pygame

    constants = [name for name in dir(pygame) if name.startswith("K_")]
    return {getattr(pygame, name): name.removeprefix("K_").lower() for name in constants}


def input_names(has_gamepad: bool) -> set[str]:
    """Returns the names of all inputs: keys, and parts of a gamepad."""
    return {*key_names().values(), *(BUTTONS + AXES if has_gamepad else ())}


def changes_of(event: Any) -> Iterator[tuple[str, float]]:
    """Yields the inputs that an event changes, with their new values."""
    import pygame

    if event.type in (pygame.KEYDOWN, pygame.KEYUP):
        if (name := key_names().get(event.key)) is not None:
            yield name, float(event.type == pygame.KEYDOWN)
    elif event.type in (pygame.JOYBUTTONDOWN, pygame.JOYBUTTONUP):
        yield f"button{event.button}", float(event.type == pygame.JOYBUTTONDOWN)
    elif event.type == pygame.JOYAXISMOTION:
        for side, pushed in (("neg", -event.value), ("pos", event.value)):
            yield f"axis{event.axis}{side}", pushed if pushed > DEAD_ZONE else 0.0
    elif event.type == pygame.JOYHATMOTION:
        x, y = event.value
        are_on = (x < 0, x > 0, y < 0, y > 0)
        yield from zip(DIRECTIONS, map(float, are_on), strict=True)
