"""The inputs of pygame's events, by name."""

import pygame
import pytest
from pygame.event import Event

from tfagents_system.films.inputs import changes_of, input_names


@pytest.mark.parametrize(
    "event, expected",
    [
        (Event(pygame.KEYDOWN, key=pygame.K_LEFT), [("left", 1.0)]),
        (Event(pygame.KEYUP, key=pygame.K_a), [("a", 0.0)]),
        (Event(pygame.JOYBUTTONDOWN, button=7, joy=0), [("button7", 1.0)]),
        (Event(pygame.JOYBUTTONUP, button=7, joy=0), [("button7", 0.0)]),
        (Event(pygame.JOYAXISMOTION, axis=1, value=-0.5), [("axis1neg", 0.5), ("axis1pos", 0.0)]),
        (Event(pygame.JOYAXISMOTION, axis=0, value=0.75), [("axis0neg", 0.0), ("axis0pos", 0.75)]),
        (Event(pygame.JOYAXISMOTION, axis=0, value=0.05), [("axis0neg", 0.0), ("axis0pos", 0.0)]),
        (
            Event(pygame.JOYHATMOTION, hat=0, value=(-1, 1)),
            [("left", 1.0), ("right", 0.0), ("down", 0.0), ("up", 1.0)],
        ),
        (Event(pygame.MOUSEMOTION, pos=(1, 1)), []),
        (Event(pygame.KEYDOWN, key=123_456_789), []),  # a key without a name
    ],
)
def test_events_change_inputs(event, expected):
    assert list(changes_of(event)) == expected


def test_each_key_has_a_name_and_a_gamepad_adds_its_parts():
    keys, all_inputs = input_names(has_gamepad=False), input_names(has_gamepad=True)
    assert {"left", "a", "0", "space", "return", "backspace"} <= keys
    assert {"button0", "axis4pos"} <= all_inputs - keys
