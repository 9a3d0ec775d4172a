"""Grids and ranges."""

import pytest

from tfagents_system.commands.sweeps.trials import (
    Range,
    Trial,
    grid_trials,
    parse_grid,
    parse_ranges,
)
from tfagents_system.core.errors import ConfigError


def test_grid_is_all_combinations_in_one_order():
    grid = parse_grid(["train_batch_size=128,256", "matmul_precision=float32",
                       "actor_fc_layer_params=(8, 8),(16,)"])  # fmt: skip
    trials = list(grid_trials(grid))
    assert len(trials) == 2 * 1 * 2
    assert trials[1] == Trial(1, {"train_batch_size": 128, "matmul_precision": "float32",
                                  "actor_fc_layer_params": (16,)})  # fmt: skip
    assert trials[2].assignments == [
        "train_batch_size=256", "matmul_precision='float32'", "actor_fc_layer_params=(8, 8)"
    ]  # fmt: skip


def test_ranges():
    assert parse_ranges(["a=1e-4:0.01:log", "b=1:8"]) == {
        "a": Range(1e-4, 0.01, True), "b": Range(1, 8, False)
    }  # fmt: skip


@pytest.mark.parametrize("text", ["a=1", "a=2:1", "a=0:1:log", "a=x:y", "a=1:2:lin", "a=1:2:log:3"])
def test_wrong_ranges_are_refused(text):
    with pytest.raises(ConfigError, match="expected NAME=LOW:HIGH or NAME=LOW:HIGH:log"):
        parse_ranges([text])


@pytest.mark.parametrize(
    ("parse", "texts", "message"),
    [
        (parse_grid, ["a"], "--grid is 'a'; expected NAME=V1,V2."),
        (parse_grid, ["a=1", "a=2"], "--grid has a twice: 1 and 2. Give it once."),
        (parse_grid, ["a=1,2,1"], "--grid has a=1 twice. Give each value once."),
        (parse_ranges, ["a=1:2", "a=1:3"], "--search has a twice: 1:2 and 1:3. Give it once."),
    ],
)
def test_messages_name_the_flag(parse, texts, message):
    with pytest.raises(ConfigError) as error_info:
        parse(texts)
    assert str(error_info.value) == message
