import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.callbacks import Callbacks, EpisodeEvent, Event
from tfagents_system.core.state.end_request import requested_end
from tfagents_system.core.state.paths import ExperimentPaths


class Tape:
    """Writes down its events."""

    def __init__(self):
        self.events = []

    def on_start(self, event):
        self.events.append(event)

    def on_episode(self, event):
        self.events.append(event)
        event.numbers["distance_mean"] = "changed"


class Broken:
    def on_episode(self, event):
        raise SystemExit(3)


class Full:
    def on_episode(self, event):
        if event.episode_return >= 9:
            event.stop_training("enough")
        raise RuntimeError("after it has asked")


@pytest.fixture
def paths(tmp_path):
    paths = ExperimentPaths(tmp_path)
    paths.running.mkdir()
    return paths


EPISODE = {"train_step": 50, "iteration": 5, "is_evaluation": False, "episode_return": 7.0,
           "length": 3, "success": None, "env_step": 60}  # fmt: skip


def test_each_callback_gets_an_event_of_its_own(paths):
    first, second = Tape(), Tape()
    callbacks = Callbacks(lambda: [first, second], "worker_1", paths)
    numbers = {"distance_mean": 0.5}
    callbacks.call("on_start", Event, train_step=0, iteration=0)
    for tape in (first, second):
        (event,) = tape.events
        assert (event.program, event.exp_dir, event.train_step) == ("worker_1", paths.root, 0)
    seen = []
    second.on_episode = seen.append
    callbacks = Callbacks(lambda: (first, second), "worker_1", paths)
    callbacks.call("on_episode", EpisodeEvent, **EPISODE, numbers=numbers)
    assert first.events[1].numbers == {"distance_mean": "changed"}
    assert (seen[0].numbers, numbers) == ({"distance_mean": 0.5},) * 2
    assert (seen[0].episode_return, seen[0].iteration, seen[0].env_step) == (7.0, 5, 60)
    callbacks.call("on_end", Event, train_step=0, iteration=0)  # nobody listens


def test_the_hook_may_ask_for_the_program(paths):
    asked = []

    def callbacks(program):
        asked.append(program)
        return []

    Callbacks(callbacks, "evaluator_2", paths)
    assert asked == ["evaluator_2"]


def test_a_callback_that_raises_is_named_and_called_again_and_the_others_too(paths, capsys):
    tape = Tape()
    callbacks = Callbacks(lambda: [Broken(), tape], "worker_0", paths)
    assert callbacks.failure is None
    for _ in range(2):
        callbacks.call("on_episode", EpisodeEvent, **EPISODE, numbers={})
    assert len(tape.events) == 2
    assert callbacks.failure.startswith("CALLBACK FAILED: Broken.on_episode raised SystemExit")
    assert "test_callbacks.py:" in callbacks.failure
    assert capsys.readouterr().err.count("CALLBACK FAILED: Broken.on_episode") == 1
    assert requested_end(paths) is None


def test_a_callback_asks_for_the_end_even_if_it_raises_then(paths):
    callbacks = Callbacks(lambda: [Full()], "worker_0", paths)
    callbacks.call("on_episode", EpisodeEvent, **EPISODE, numbers={})
    assert requested_end(paths) is None
    callbacks.call("on_episode", EpisodeEvent, **EPISODE | {"episode_return": 9.0}, numbers={})
    assert requested_end(paths) == "enough (Full.on_episode)"
    assert "after it has asked" in callbacks.failure


class Misspelt:
    def on_evaluaton(self, event):
        pass


class Other:
    def on_message(self, event):
        pass


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "None; expected a list of objects with some of the methods on_start, "),
        ([print], "a builtin_function_or_method, which has none of the methods on_start"),
        ([Other()], "a Other, which has none of the methods on_start, on_episode"),
        ([Misspelt()], "a Misspelt with the method on_evaluaton, .* Did you mean on_evaluation"),
    ],
)
def test_what_is_no_callback_is_refused(paths, returned, message):
    with pytest.raises(ConfigError, match=f"^TrainParams.callbacks returned.* {message}"):
        Callbacks(lambda: returned, "learner", paths)
