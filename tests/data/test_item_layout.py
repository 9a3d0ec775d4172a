import pytest

from tfagents_system.core.training_settings import TrainingSettings
from tfagents_system.data.item_layout import SINGLE, ItemLayout


@pytest.mark.parametrize(
    "values, expected",
    [
        ({}, ItemLayout(8)),
        ({"fresh_samples_per_step": 12}, ItemLayout(4)),  # divides what a train step takes
        ({"fresh_samples_per_step": 7}, SINGLE),
        ({"fresh_samples_per_step": None}, SINGLE),  # minibatches need independent draws
        ({"fresh_samples_per_step": 256}, SINGLE),
        ({"recurrent": True}, ItemLayout(20, is_sequence=True)),
        ({"recurrent": True, "fresh_samples_per_step": None}, ItemLayout(20, is_sequence=True)),
    ],
)
def test_layout_of_settings(values, expected):
    assert ItemLayout.from_settings(TrainingSettings(**values)) == expected


def test_strides_and_shapes():
    assert (SINGLE.stride, SINGLE.lead) == (1, [])
    assert (ItemLayout(8).stride, ItemLayout(8).lead) == (8, [8])
    sequence = ItemLayout(20, is_sequence=True)
    assert (sequence.stride, sequence.lead) == (1, [20])


def test_checkpoints_of_blocks_are_told_from_those_of_sequences():
    layouts = ItemLayout(8), ItemLayout(8, is_sequence=True), SINGLE
    assert [str(layout) for layout in layouts] == ["blocks of 8", "8", "1"]
