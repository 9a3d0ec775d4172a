import pytest
from fakes import FakeClock

from tfagents_system.core.state import pause as pauses
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.pause import COLLECTION, LEARNING, PARTS, pause, paused, resume
from tfagents_system.core.waiting import Throttled


@pytest.fixture
def paths(tmp_path):
    return ExperimentPaths(tmp_path)


def test_parts_are_paused_together_until_resume(paths):
    assert paused(paths) == ()
    pause(paths, [LEARNING])
    assert paused(paths) == (LEARNING,)
    pause(paths, [COLLECTION])
    assert paused(paths) == (COLLECTION, LEARNING)
    for _ in range(2):
        resume(paths)
        assert paused(paths) == ()


@pytest.mark.parametrize("content", ["", "{", '{"collection": false}', '["walking"]', "7", "[[]]"])
def test_what_cannot_be_read_pauses_everything(paths, content):
    paths.pause.write_text(content)
    assert paused(paths) == PARTS
    pause(paths, [LEARNING])
    assert paused(paths) == PARTS


def test_programs_look_five_times_a_second(paths, monkeypatch):
    clock = FakeClock()
    monkeypatch.setattr(
        pauses, "Throttled", lambda ask, period_secs: Throttled(ask, period_secs, clock)
    )
    is_paused = pauses.pause_of(paths, COLLECTION)
    assert not is_paused()
    pause(paths, [COLLECTION])
    assert not is_paused()
    clock.now += pauses.LOOK_PERIOD_SECS
    assert is_paused()
    assert not pauses.pause_of(paths, LEARNING)()
