"""The rows of `sac check` on entities, goals and images."""

import types

import numpy as np
from tf_agents.specs import array_spec

from tfagents_system.commands.checks.observations import (
    EntityCounter,
    check_goal_conditioning,
    check_images,
)


def test_entities_are_counted_and_those_that_are_too_small_are_noted():
    spec = {
        "arm": array_spec.ArraySpec([2], np.float32),
        "blocks": array_spec.ArraySpec([3, 2], np.float32, "blocks.entities"),
    }
    assert EntityCounter({"arm": spec["arm"]}).rows() == []
    counter = EntityCounter(spec)
    nothing = [0, 0]
    for blocks in ([[1, 0], nothing, [0, -1]], [nothing] * 3, [[0.1, 0.01], nothing, nothing]):
        counter.count({"arm": np.zeros(2, np.float32), "blocks": np.float32(blocks)})
    (row,) = counter.rows()
    assert (row.verdict, row.value) == ("ok", "blocks float32 [3, 2] had 0 to 2 of at most 3")
    counter.count({"arm": np.zeros(2), "blocks": np.float32([[0.05, 0.08], [0, 0], [1, 1]])})
    _, row = counter.rows()  # 0.05^2 + 0.08^2 = 0.0089
    assert row.verdict == "note"
    assert "blocks had rows in 1 steps that are not zeros, but taken for absent" in row.value
    assert "docs/environments.md#lists-of-entities" in row.advice


def test_goals_are_listed_with_the_weights_that_they_cost():
    target = array_spec.ArraySpec([2], np.float32, "target.goal_signal")
    spec = {"arm": array_spec.ArraySpec([2], np.float32), "target": target}
    params = types.SimpleNamespace(
        actor_fc_layer_params=(64, 100), critic_joint_fc_layer_params=(128, 128)
    )
    (row,) = check_goal_conditioning(spec, params)
    assert row.verdict == "ok"
    assert row.value == (
        "target float32 [2]: the last hidden layer is generated from them, by 0.6 million weights "
        "in the actor and 2.1 in each critic"  # 64 * 100 * 100 and 128^3
    )
    assert check_goal_conditioning({"arm": spec["arm"]}, params) == []
    params.critic_joint_fc_layer_params = (256, 256)
    (row,) = check_goal_conditioning(spec, params)
    assert row.verdict == "note"
    assert "16.8 in each critic" in row.value and "such as (64, 64), or goal_cond" in row.advice


def test_images_are_listed_with_axes_and_encoders():
    spec = {
        "eye": array_spec.ArraySpec([3, 84, 60], np.float32),
        "arm": array_spec.ArraySpec([7], np.float32),
        "map": array_spec.ArraySpec([24, 24], np.uint8),
    }
    params = types.SimpleNamespace(
        preprocessing_combiner=None, image_encoder=None, image_augmentation=0
    )
    (row,) = check_images(spec, params)
    assert row.verdict == "ok"
    assert row.value == (
        "eye float32 [3, 84, 60] is CHW, nature_cnn; map uint8 [24, 24] is HW, simple"
    )
    assert check_images({"arm": spec["arm"]}, params) == []
    params.preprocessing_combiner = lambda nest: nest
    (row,) = check_images(spec["eye"], params)
    assert row.value == "observation float32 [3, 84, 60] is CHW"


def test_settings_of_images_that_have_none_or_too_small_ones_are_noted():
    board = array_spec.ArraySpec([5, 7, 3], np.float32)
    params = types.SimpleNamespace(
        preprocessing_combiner=None, image_encoder=None, image_augmentation=2
    )
    ok, note = check_images(board, params)  # 2 > 5 / 4
    assert (ok.verdict, note.verdict) == ("ok", "note")
    assert note.value.startswith("image_augmentation is 2, and an image has a side of 5: ")
    params.image_augmentation, params.image_encoder = 1, "match3"
    (ok,) = check_images(board, params)
    assert ok.value == "observation float32 [5, 7, 3] is HWC, match3"
    (note,) = check_images(array_spec.ArraySpec([84, 84], np.float32), params)
    assert note.verdict == "note" and "image_layouts" in note.advice
    assert note.value == (
        "image_encoder is 'match3', image_augmentation is 1, without effect: no array of the "
        "observation is an image"
    )
