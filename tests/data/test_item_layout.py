from fractions import Fraction

import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.training_settings import TrainingSettings
from tfagents_system.data.item_layout import SINGLE, ItemLayout

SEQUENCE = ItemLayout(20, is_sequence=True)


@pytest.mark.parametrize(
    "values, expected",
    [
        ({}, ItemLayout(8)),
        ({"fresh_samples_per_step": 12}, ItemLayout(4)),  # divides what a train step takes
        ({"fresh_samples_per_step": 7}, SINGLE),
        ({"fresh_samples_per_step": None}, SINGLE),  # minibatches need independent draws
        ({"fresh_samples_per_step": 256}, SINGLE),
        ({"her_copies": 4}, ItemLayout(8, num_copies=4, goals_change=True)),
        ({"her_copies": 1, "her_strategy": "final"}, ItemLayout(8, num_copies=1)),
        (
            {"her_copies": 4, "fresh_samples_per_step": None},
            ItemLayout(1, num_copies=4, goals_change=True),
        ),
        ({"recurrent": True}, SEQUENCE),
        ({"recurrent": True, "fresh_samples_per_step": None}, SEQUENCE),
        # (n + k) / n <= 1.2 if n >= 5 k
        ({"frame_stack": 2}, ItemLayout(16, frame_stack=2)),
        ({"frame_stack": 3}, ItemLayout(16, frame_stack=3)),
        ({"frame_stack": 4}, ItemLayout(32, frame_stack=4)),
        ({"frame_stack": 4, "fresh_samples_per_step": 63}, ItemLayout(21, frame_stack=4)),
        ({"frame_stack": 4, "fresh_samples_per_step": None}, ItemLayout(1, frame_stack=4)),
        ({"frame_stack": 4, "recurrent": True}, ItemLayout(20, True, frame_stack=4)),
        ({"recurrent": True, "segment_len": 50}, ItemLayout(50, True, is_segment=True)),
        (
            {"recurrent": True, "segment_len": 50, "burn_in_len": 10},
            ItemLayout(50, True, is_segment=True, burn_in=10),
        ),
        ({"recurrent": True, "burn_in_len": 10}, ItemLayout(20, True, burn_in=10)),
        ({"n_step_returns": 3}, ItemLayout(8, n_step=3)),
        ({"n_step_returns": 3, "fresh_samples_per_step": 7}, ItemLayout(1, n_step=3)),
        # repeats 2 + 3 - 1 rows
        ({"n_step_returns": 3, "frame_stack": 2}, ItemLayout(32, frame_stack=2, n_step=3)),
    ],
)
def test_layout_of_settings(values, expected):
    assert ItemLayout.from_settings(TrainingSettings(**values)) == expected


def test_stacked_frames_need_blocks_of_which_few_rows_are_repeated():
    settings = TrainingSettings(frame_stack=4, fresh_samples_per_step=16)
    with pytest.raises(ConfigError, match="at least 20 transitions.* = 16, .* multiple of 32"):
        ItemLayout.from_settings(settings)


@pytest.mark.parametrize(
    "layout, rows, window, samples, row_stride",
    [
        (SINGLE, 2, 2, 1, 1),
        (ItemLayout(8), 8 + 1, 2, 8, 9),
        (SEQUENCE, 20 + 1, 21, 1, 1),
        (ItemLayout(32, frame_stack=4), 32 + 4, 4 + 1, 32, 36),
        (ItemLayout(1, frame_stack=4), 4 + 1, 4 + 1, 1, 1),
        (ItemLayout(20, True, frame_stack=3), 20 + 3, 23, 1, 1),
        (ItemLayout(20, True, is_segment=True), 20 + 1, 21, 1, 20),
        (ItemLayout(8, n_step=3), 8 + 1 + 2, 1 + 3, 8, 11),
        (ItemLayout(1, n_step=3), 1 + 1 + 2, 1 + 3, 1, 4),
        (ItemLayout(32, frame_stack=2, n_step=3), 32 + 2 + 2, 2 + 3, 32, 36),
    ],
)
def test_rows_and_samples_of_an_item(layout, rows, window, samples, row_stride):
    assert (layout.rows, layout.window, layout.samples) == (rows, window, samples)
    assert layout.row_stride == row_stride


def test_items_of_a_full_episode():
    assert SINGLE.items_per_episode(10) == 10
    assert SEQUENCE.items_per_episode(25) == 25  # one begins at each step
    assert SEQUENCE.items_per_episode(7) == 7
    warmed_up = ItemLayout(20, True, burn_in=10)
    assert warmed_up.items_per_episode(25) == 25 - 10
    assert warmed_up.items_per_episode(7) == 1
    unpadded = ItemLayout(20, True, pads_episodes=False)
    assert unpadded.items_per_episode(25) == 25 - 20 + 1
    assert unpadded.items_per_episode(20) == unpadded.items_per_episode(7) == 1
    assert ItemLayout(20, True, is_segment=True).items_per_episode(45) == 3  # 20 + 20 + 5
    assert ItemLayout(20, True, is_segment=True).items_per_episode(40) == 2
    overlapping = ItemLayout(20, True, is_segment=True, burn_in=5)
    assert overlapping.items_per_episode(50) == 3  # 20, 15 more, 15 more
    assert overlapping.items_per_episode(51) == 4
    assert ItemLayout(8).items_per_episode(10) == Fraction(11, 8)  # 11 rows
    assert ItemLayout(8).samples_in(11, horizon=10) == 8 * 10  # eight episodes
    assert SINGLE.samples_in(11, horizon=10) == 11


def test_copies_are_items_but_no_samples_of_an_episode():
    one_goal = ItemLayout(8, num_copies=4)
    assert one_goal.items_per_episode(10) == Fraction(11 + 4 * 11, 8)
    assert one_goal.samples_in(55, horizon=10) == 8 * 10  # eight episodes
    changing = ItemLayout(8, num_copies=4, goals_change=True)
    mean_goals = 1 + 1 / 2 + 1 / 3
    assert float(changing.items_per_episode(3)) == pytest.approx((4 + 4 * (3 + mean_goals)) / 8)
    assert ItemLayout(1, num_copies=4, goals_change=True).items_per_episode(10) == 10 * (1 + 4)


def test_where_sequences_and_segments_end():
    def ends(layout, num_transitions):
        return [k for k in range(1, num_transitions + 1) if layout.ends_sequence(k)]

    assert ends(ItemLayout(3, True), 6) == [3, 4, 5, 6]
    assert ends(ItemLayout(3, True, is_segment=True), 9) == [3, 6, 9]
    assert ends(SINGLE, 3) == [1, 2, 3]
    padding = ItemLayout(3, True, is_segment=True).num_padding
    assert [padding(k) for k in range(1, 7)] == [2, 1, 0, 2, 1, 0]
    overlapping = ItemLayout(4, True, is_segment=True, burn_in=1)
    assert ends(overlapping, 11) == [4, 4 + 3, 4 + 3 + 3]
    assert [overlapping.num_padding(k) for k in range(3, 9)] == [1, 0, 2, 1, 0, 2]
    assert [SEQUENCE.num_padding(k) for k in (1, 19, 20, 21)] == [20 - 1] * 4
    warmed_up = ItemLayout(5, True, burn_in=2)
    assert [warmed_up.num_padding(k) for k in (1, 2, 3, 4, 9)] == [5 - 1, 5 - 2, 2, 2, 2]
