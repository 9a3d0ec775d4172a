import types
from fractions import Fraction

import pytest

from tfagents_system.environments import dm_control_adapter
from tfagents_system.films.playback import Playback, playback_of


def env(**attributes):
    return types.SimpleNamespace(**attributes)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (env(), Playback(Fraction(30), 1)),
        (env(dt=0.05), Playback(Fraction(20), 1)),
        (env(dt=0.05, metadata={"render_fps": 30}), Playback(Fraction(20), 1)),  # real time
        (env(dt=1 / 60), Playback(Fraction(60), 1)),
        (env(dt=0.01), Playback(Fraction(100, 3), 3)),
        (env(dt=0.002), Playback(Fraction(500, 17), 17)),
        (env(_time_step=0.002, _action_repeat=5), Playback(Fraction(100, 3), 3)),
        (env(scene=env(dt=0.02)), Playback(Fraction(50), 1)),
        (env(scene=None, metadata={"render_fps": 50}), Playback(Fraction(50), 1)),
        (env(metadata={"video.frames_per_second": 15}), Playback(Fraction(15), 1)),
        (env(dt=3600.0), Playback(Fraction(30), 1)),  # an hour: not a second of a film
        (env(dt=0), Playback(Fraction(30), 1)),
        (env(dt="fast", metadata={"render_fps": None}), Playback(Fraction(30), 1)),
        (env(dt=0.05, metadata=None), Playback(Fraction(20), 1)),
    ],
)
def test_playback_of(environment, expected):
    assert playback_of(environment) == expected


def test_playback_of_looks_inside_the_wrappers():
    innermost = env(dt=0.05)
    assert playback_of(env(gym=env(unwrapped=innermost), dt=0.5)).frames_per_sec == 20


def test_playback_of_dm_control_is_its_control_rate():
    pytest.importorskip("dm_control")
    cheetah = dm_control_adapter.load("cheetah", "run")  # 0.01 s
    assert playback_of(cheetah) == (Fraction(100, 3), 3)
