import pathlib

import pytest

from tfagents_system.commands.bindings import bindings_of
from tfagents_system.commands.learned_data import settings_of_data
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.gin_bindings import parse_binding


def values(*arguments):
    """Returns the hyperparameters that the flags set, as gin reads them."""
    bindings = bindings_of(settings_of_data(*arguments))
    return {b.name: b.value for b in (parse_binding(binding, "here") for binding in bindings)}


def test_offline_takes_one_data_set_or_several():
    one = values(["logs/my first"], None, ["num_iter=3"], None)
    assert one == {"demonstrations": "logs/my first", "demonstration_share": 1.0}
    several = values(["a.demo", "b's"], None, [], None)
    assert several == {"demonstrations": ["a.demo", "b's"], "demonstration_share": 1.0}
    assert values([], None, ["demonstration_share=0.1"], 4) == {}


@pytest.mark.parametrize(
    ("replay_from", "assignments", "workers", "message"),
    [
        (pathlib.Path("logs/a"), [], None, r"^--replay_from is logs/a, .* give only one"),
        (None, [], 2, r"^--workers is 2, .* leave one out"),
        (None, ["demonstrations=x"], None, "^--set has demonstrations, and there is --offline"),
        (None, ["num_iter=3", "demonstration_share = 0.5"], None, "^--set has demonstration_share"),
        (None, ["TrainParams.demonstrations=x"], None, "^--set has demonstrations"),
    ],
)
def test_what_contradicts_offline_is_refused(replay_from, assignments, workers, message):
    with pytest.raises(ConfigError, match=message):
        settings_of_data(["demos"], replay_from, assignments, workers)


def test_what_contradicts_replay_from_is_refused():
    with pytest.raises(ConfigError, match="^--set has demonstrations, and there is --replay_from"):
        settings_of_data([], pathlib.Path("logs/a"), ["demonstrations=x"], None)
