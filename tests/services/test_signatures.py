import pathlib

import numpy as np
import pytest
import tensorflow as tf
from replay_fakes import UNLIMITED, EpisodeStepEnv, codec_of, serving

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.ports import free_port
from tfagents_system.data.item_description import describe_item, described_item, item_columns
from tfagents_system.data.item_layout import ItemLayout
from tfagents_system.services.replay import EXPERIENCE_TABLE, start_server
from tfagents_system.services.signatures import check_columns
from tfagents_system.services.table_info import table_signature

CODEC = codec_of(EpisodeStepEnv())
NUMBERS = 1 + 2 + 1 + 1 + 1  # step type, observation, action, reward, discount


def columns_of(length):
    return item_columns(ItemLayout(length), CODEC.columns)


def test_an_item_survives_being_described():
    layout = ItemLayout(4, frame_stack=2)
    row = [tf.TensorSpec([3], tf.float32), tf.TensorSpec([7], tf.uint8)]
    description = describe_item(layout, row)
    expected = {"length": 4, "is_sequence": False, "frame_stack": 2, "is_segment": False,
                "burn_in": 0, "n_step": 1}  # fmt: skip
    assert description == expected | {"columns": [["float32", [3]], ["uint8", [7]]]}
    rows = 4 + 2
    columns = [tf.TensorSpec([rows, 3], tf.float32), tf.TensorSpec([rows, 7], tf.uint8)]
    assert described_item(description) == (layout, columns)


def test_the_table_refuses_a_program_of_another_layout_and_names_both(tmp_path):
    with serving(tmp_path / "reverb", columns=columns_of(8)) as replay:
        signature = table_signature(replay.client(), EXPERIENCE_TABLE, timeout_secs=60)
    check_columns(signature, columns_of(8))
    with pytest.raises(ConfigError) as caught:
        check_columns(signature, columns_of(4))
    assert f"is for items of float32 [9, {NUMBERS}], but" in str(caught.value)
    assert f"this program's are float32 [5, {NUMBERS}]." in str(caught.value)


def test_a_table_without_signature_takes_any(tmp_path):
    with serving(tmp_path / "reverb") as replay:
        assert table_signature(replay.client(), EXPERIENCE_TABLE, timeout_secs=60) is None
    check_columns(None, columns_of(4))


def test_reverb_does_not_validate_what_a_writer_sends(tmp_path):
    """Why programs compare: if this fails, `check_columns` is no longer needed."""
    with serving(tmp_path / "reverb", columns=columns_of(8)) as replay:
        writer = replay.client().trajectory_writer(1, validate_items=False)
        writer.append([np.zeros(NUMBERS, np.float32)])
        writer.create_item("experience", 1.0, [writer.history[0][-1:]])
        writer.flush(timeout_ms=5000)


def test_a_checkpoint_with_items_of_another_layout_is_refused(tmp_path):
    with serving(tmp_path / "reverb", columns=columns_of(8)) as replay:
        checkpoint = pathlib.Path(replay.client().checkpoint())
    with serving(tmp_path / "other", restore_from=checkpoint, columns=columns_of(8)) as replay:
        check_columns(
            table_signature(replay.client(), EXPERIENCE_TABLE, timeout_secs=60), columns_of(8)
        )
    with pytest.raises(ConfigError, match=rf"holds items of float32 \[9, {NUMBERS}\], but those"):
        start_server(UNLIMITED, free_port(), tmp_path / "third", checkpoint, columns=columns_of(4))
