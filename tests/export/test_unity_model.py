"""Models for Unity: names and shapes, and that they act as the policy does."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tree
from export.test_models import (
    BOARD,
    BRANCHES,
    ONE_OF_THREE,
    VECTOR,
    VECTORS,
    episodes_of,
    make_agent,
    written,
)
from tf_agents.specs import tensor_spec

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments.unity import specs
from tfagents_system.environments.unity.behaviors import Behavior, Sensor
from tfagents_system.export import models
from tfagents_system.export.policy import FORMATS

onnxruntime = pytest.importorskip(
    "onnxruntime", reason="the packages of locks/test.lock are missing"
)

RAYS = Sensor("rays", (6,), "float32", False)
CAMERA = Sensor("camera", (20, 24, 3), "uint8", True)
BLOCKS = Sensor("blocks", (5, 3), "float32", False, is_list=True)
TARGET = Sensor("target", (2,), "float32", False, is_goal=True)
DEPTH = Sensor("a_depth", (12, 14, 1), "float32", True)


def agent_of(sensors, num_continuous=0, branches=(), **settings):
    """The agent of a Unity behavior."""
    behavior = Behavior("Test", num_continuous, branches, tuple(sensors))
    observation, action = (
        tensor_spec.from_spec(make(behavior))
        for make in (specs.observation_spec, specs.action_spec)
    )
    return make_agent(observation, action_spec=action, **settings)


CASES = {
    "vector": ([RAYS], 2, (), {}),
    "normalized": ([RAYS], 2, (), {"normalize_observations": True}),
    "discrete": ([RAYS], 0, (3, 2, 3), {}),
    "hybrid": ([RAYS], 2, (3, 2, 3), {}),
    "camera": ([CAMERA], 2, (), {}),
    "cameras in the order of the sensors": ([RAYS, CAMERA, DEPTH], 2, (), {}),
    "camera, masks": ([CAMERA, RAYS], 0, (3, 2, 3), {}),
    "entities": ([RAYS, BLOCKS], 2, (), {}),
    "goals": ([RAYS, TARGET], 2, (), {"normalize_observations": True}),
    "goals, lstm": ([TARGET, RAYS], 2, (), {"recurrent": True}),
    "goals, entities, camera": ([CAMERA, TARGET, BLOCKS], 2, (), {}),
    "lstm": ([RAYS], 2, (), {"recurrent": True}),
    "lstm, hybrid": ([CAMERA, RAYS], 2, (3, 2, 3), {"recurrent": True}),
    "gru": ([RAYS], 2, (), {"recurrent": True, "rnn_type": "gru", "rnn_layers": 2}),
    "one branch, td3": ([RAYS], 2, (), {"algorithm": "td3"}),
    "crossq": ([RAYS, CAMERA], 2, (), {"algorithm": "crossq"}),
}


def rows_for_unity(spec, observations):
    """The inputs of B agents as Unity gives them, by name."""
    inputs = {}
    names = [name for name in spec if name != "action_mask"]
    for index, name in enumerate(names):
        batch = np.stack([observation[name] for observation in observations]).astype(np.float32)
        if spec[name].dtype == tf.uint8:
            batch /= 255  # Unity's colors are from 0 to 1
        inputs[f"obs_{index}"] = np.moveaxis(batch, -1, 1) if batch.ndim == 4 else batch
    if "action_mask" in spec:
        inputs["action_masks"] = np.stack([each["action_mask"] for each in observations])
    return inputs


@pytest.mark.parametrize("case", CASES)
def test_many_agents_act_at_once_as_the_policy_does(case, tmp_path):
    sensors, num_continuous, branches, settings = CASES[case]
    agent = agent_of(sensors, num_continuous, branches, **settings)
    spec = agent.policy.time_step_spec.observation
    episodes = list(episodes_of(agent))
    folder = written(agent, "unity", tmp_path)
    session = onnxruntime.InferenceSession(str(folder / "policy.onnx"))
    inputs = {each.name: each.shape for each in session.get_inputs()}
    names = [each.name for each in session.get_outputs()]
    assert all(shape[0] == "batch" for shape in inputs.values())
    memory = np.zeros([len(episodes), *inputs.get("recurrent_in", [0, 1, 0])[1:]], np.float32)
    is_int = [leaf.dtype.is_integer for leaf in tree.flatten(agent.action_spec)]
    for step in range(len(episodes[0])):
        given = rows_for_unity(spec, [episode[step][0] for episode in episodes])
        if "recurrent_in" in inputs:
            given["recurrent_in"] = memory
        assert given.keys() == inputs.keys()
        outputs = dict(zip(names, session.run(None, given), strict=True))
        memory = outputs.get("recurrent_out")
        for index, is_discrete in enumerate(is_int):
            wanted = np.stack([episode[step][1][index] for episode in episodes])
            kind = "discrete" if is_discrete else "continuous"
            for name in (f"{kind}_actions", f"deterministic_{kind}_actions"):
                np.testing.assert_allclose(outputs[name], wanted, rtol=1e-5, atol=1e-5)


def test_names_and_shapes_are_those_of_the_packages(tmp_path):
    agent = agent_of([CAMERA, RAYS], 2, (3, 2), recurrent=True)  # 6 units
    session = onnxruntime.InferenceSession(str(written(agent, "unity", tmp_path) / "policy.onnx"))
    inputs = {each.name: (each.shape[1:], each.type) for each in session.get_inputs()}
    assert inputs == {
        "obs_0": ([3, 20, 24], "tensor(float)"),
        "obs_1": ([6], "tensor(float)"),
        "recurrent_in": ([1, 2 * 6], "tensor(float)"),
        "action_masks": ([3 + 2], "tensor(float)"),
    }
    given = {name: np.ones([4, *shape], np.float32) for name, (shape, _) in inputs.items()}
    names = [each.name for each in session.get_outputs()]
    outputs = dict(zip(names, session.run(None, given), strict=True))
    assert outputs["version_number"].tolist() == [3]
    assert outputs["memory_size"].tolist() == [12]
    assert outputs["continuous_action_output_shape"].tolist() == [2]
    assert outputs["discrete_action_output_shape"].tolist() == [[3, 2]]
    of_agents = {name: value for name, value in outputs.items() if len(value) == 4}
    assert {name: (value.shape, value.dtype) for name, value in of_agents.items()} == {
        "continuous_actions": ((4, 2), np.float32),
        "deterministic_continuous_actions": ((4, 2), np.float32),
        "discrete_actions": ((4, 2), np.int64),
        "deterministic_discrete_actions": ((4, 2), np.int64),
        "recurrent_out": ((4, 1, 12), np.float32),
    }  # fmt: skip


def test_without_memory_or_integers_their_inputs_and_outputs_are_missing(tmp_path):
    session = onnxruntime.InferenceSession(
        str(written(agent_of([RAYS], 2), "unity", tmp_path) / "policy.onnx")
    )
    assert [each.name for each in session.get_inputs()] == ["obs_0"]
    assert [each.name for each in session.get_outputs()] == [
        "version_number",
        "memory_size",
        "continuous_actions",
        "deterministic_continuous_actions",
        "continuous_action_output_shape",
    ]
    assert session.run(["memory_size"], {"obs_0": np.zeros([1, 6], np.float32)})[0].tolist() == [0]


def test_opset_is_that_of_mlagents_own_models(tmp_path):
    import onnx

    model = onnx.load(written(agent_of([RAYS], 0, (3, 2)), "unity", tmp_path) / "policy.onnx")
    assert [(each.domain, each.version) for each in model.opset_import] == [("", 9)]


def test_a_sensor_that_only_critics_see_keeps_its_number(tmp_path):
    state = Sensor("state", (4,), "float32", False)
    agent = agent_of([state, RAYS], 2, critic_observations=["state"])
    session = onnxruntime.InferenceSession(str(written(agent, "unity", tmp_path) / "policy.onnx"))
    assert [(each.name, each.shape[1:]) for each in session.get_inputs()] == [
        ("obs_0", [4]), ("obs_1", [6]),
    ]  # fmt: skip
    rays = np.ones([1, 6], np.float32)
    one, other = (
        session.run(
            ["continuous_actions"], {"obs_0": np.full([1, 4], n, np.float32), "obs_1": rays}
        )
        for n in (0, 5)
    )
    np.testing.assert_array_equal(one, other)


def test_the_runner_takes_the_whole_observation_of_privileged_critics(tmp_path):
    from tfagents_system.export import unity_runner

    state = Sensor("state", (4,), "float32", False)
    agent = agent_of([state, RAYS], 2, critic_observations=["state"])
    policy = unity_runner.Policy(written(agent, "unity", tmp_path))
    seen = {"rays": np.linspace(0, 1, 6)}
    whole = seen | {"state": np.full(4, 5.0)}
    np.testing.assert_array_equal(policy.action(whole), policy.action(seen))


@pytest.mark.parametrize("largest", [0.25, 255])
def test_a_mask_allows_what_is_not_zero(largest, tmp_path):
    from tfagents_system.export import unity_runner

    agent = agent_of([RAYS], 0, (3, 2, 3))
    policy = unity_runner.Policy(written(agent, "unity", tmp_path))
    for observation, (expected,) in next(episodes_of(agent, largest)):
        assert policy.action(observation).tolist() == expected.tolist()


@pytest.mark.parametrize(
    "case", ["cameras in the order of the sensors", "lstm, hybrid", "camera, masks"]
)
def test_the_runner_takes_what_the_environment_gives(case, tmp_path):
    from tfagents_system.export import unity_runner

    sensors, num_continuous, branches, settings = CASES[case]
    agent = agent_of(sensors, num_continuous, branches, **settings)
    folder = written(agent, "unity", tmp_path)
    policy = unity_runner.Policy(folder)
    example = json.loads((folder / "example.json").read_text())
    for episode in list(episodes_of(agent))[:3]:
        policy.reset()
        for observation, expected in episode:
            action = policy.action(observation)
            for part, wanted in zip(tree.flatten(action), expected, strict=True):
                assert (part.shape, part.dtype) == (wanted.shape, wanted.dtype)
                np.testing.assert_allclose(part, wanted, rtol=1e-5, atol=1e-5)
    policy.reset()
    action = policy.action(example["observation"])
    wanted = example["action"]
    if isinstance(action, dict):
        action, wanted = tree.flatten(action), [np.array(wanted[key]) for key in sorted(wanted)]
    else:
        action, wanted = [action], [np.array(wanted)]
    for part, expected in zip(action, wanted, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="infs or NaNs"):
        policy.action({"camera": np.full([20, 24, 3], np.nan)})


def test_any_vectors_can_be_exported_in_the_order_of_the_dict(tmp_path):
    session = onnxruntime.InferenceSession(
        str(written(make_agent(VECTORS), "unity", tmp_path) / "policy.onnx")
    )
    assert [each.shape[1:] for each in session.get_inputs()] == [[3], [2, 2]]  # goal, then arm


@pytest.mark.parametrize(
    "spec, action, message",
    [
        (VECTOR, {"a": ONE_OF_THREE, "b": BRANCHES}, "has 0 arrays of numbers and 2 of integers"),
        (VECTOR, BRANCHES, r"its integers begin with \[0, 5\], Unity's with 0"),
        (
            {"board": BOARD, "place": tensor_spec.BoundedTensorSpec(
                [], tf.int64, 3, 40, "category_of_place")},
            tensor_spec.BoundedTensorSpec([1], tf.float32, -1, 1),
            "observation 'place' is a category",
        ),
    ],
)  # fmt: skip
def test_what_unity_does_not_have_is_refused(spec, action, message, tmp_path):
    with pytest.raises(ConfigError, match=f"unity cannot hold this policy: .*{message}"):
        written(make_agent(spec, action_spec=action), "unity", tmp_path)


def test_runner_has_at_most_30_lines_and_the_format_is_listed():
    assert "unity" in FORMATS and set(FORMATS) == set(models.WRITERS)
    source = pathlib.Path(models.__file__).with_name("unity_runner.py").read_text()
    assert len(source.splitlines()) <= 30
