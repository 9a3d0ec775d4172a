import ast
import json
import math
import pathlib
import runpy
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tree
from tf_agents.networks.actor_distribution_network import ActorDistributionNetwork
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.action_masks import has_mask
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.observation_kinds import is_entities
from tfagents_system.export import latency, models, numpy_runner, savedmodel_runner, tflite_runner
from tfagents_system.export.policy_file import FilePolicy
from tfagents_system.policies.acting import TfActingPolicy
from tfagents_system.train_params_base import TrainParamsBase

VECTOR = tf.TensorSpec([3], tf.float32, "observation")
PLACE = tensor_spec.BoundedTensorSpec([], tf.int64, 3, 40, "category_of_place")
CARDS = tensor_spec.BoundedTensorSpec([2], tf.int64, [0, 0], [1, 9], "category_of_cards")
IMAGE = tf.TensorSpec([2, 3], tf.uint8, "observation")
VECTORS = {"goal": VECTOR, "arm": {"joints": tf.TensorSpec([2, 2], tf.float32)}}
BOARD = tf.TensorSpec([5, 5, 3], tf.float32, "observation")
COLORS = tf.TensorSpec([3, 20, 24], tf.float32, "observation")  # channels first
GRAY = tf.TensorSpec([20, 24], tf.uint8, "observation")
SMALL = tf.TensorSpec([16, 15, 2], tf.uint8, "observation")
BLOCKS = tf.TensorSpec([5, 3], tf.float32, "blocks.entities")
TREES = tf.TensorSpec([4, 2], tf.float32, "trees.entities")
TARGET = tf.TensorSpec([2], tf.float32, "target.goal_signal")
GOAL_PLACE = tensor_spec.BoundedTensorSpec([], tf.int64, 3, 9, "category_of_place.goal_signal")
CAMERAS = {"left": COLORS, "speed": VECTOR, "board": BOARD, "top": SMALL}
NEST = {"arm": {"angle": VECTOR}, "camera": IMAGE}
ACTION = tensor_spec.BoundedTensorSpec(
    [2], tf.float32, np.float32([-1, 2]), np.float32([5, 2.5]), "action"
)
ONE_OF_THREE = tensor_spec.BoundedTensorSpec([], tf.int64, -1, 1, "action")
BRANCHES = tensor_spec.BoundedTensorSpec([2], tf.int32, [0, 5], [1, 7], "action")
# Keys that are also names inside of graphs, of their outputs or of their states.
NAMES = ("center", "low", "action", "h_0", "next_h_0", "policy_state_0", "observation_action")
OF_NAMES = {name: VECTOR for name in NAMES}
# Keys that are no names of arguments.
PUNCTUATED = {
    key: VECTOR for key in ("arm.pos", "arm-vel", "arm/x", "Grip", "_left", "self", "lambda")
}
FORMATS = ("numpy", "onnx", "savedmodel", "tflite")  # of unity see test_unity_model
NUM_EPISODES, NUM_STEPS = 20, 50  # 1,000 observations


class Params(TrainParamsBase):
    actor_fc_layer_params = (8, 7)
    critic_joint_fc_layer_params = (4,)
    rnn_units = 6

    def env_ctor(self, *args, seed=None, **kwargs):
        raise NotImplementedError("the specs are given")


def make_agent(
    observation_spec, combiner=None, params_class=Params, action_spec=ACTION, **settings
):
    params = params_class({"horizon": NUM_STEPS})
    for name, value in (settings | {"preprocessing_combiner": combiner}).items():
        setattr(params, name, value)
    agent = params.agent_ctor(
        tf.Variable(0, dtype=tf.int64), observation_spec, action_spec,
        ts.time_step_spec(observation_spec),
    )  # fmt: skip
    agent.initialize()
    rng = np.random.default_rng(1)
    for variable in agent.policy.variables():
        # With a bias, one choice may be always the best.
        is_bias = variable.name.endswith(("logits/bias:0", "outputs_of_leaves/bias:0"))
        num_inputs = math.prod(variable.shape[:-1])
        is_of_images = len(variable.shape) == 4 or num_inputs > 100  # larger ones saturate tanh
        scale = 0.0 if is_bias else math.sqrt(2 / num_inputs) if is_of_images else 0.5
        if "kernel_of_goals/kernel" in variable.name:  # its outputs are weights of another layer
            scale = math.sqrt(2 / variable.shape[1])
        values = rng.normal(scale=scale, size=variable.shape)
        variable.assign(abs(values) if "variance" in variable.name else values)
    return agent


def entities_of(spec, rng):
    """None to all entities, anywhere in the list."""
    is_present = rng.random(spec.shape[0]) < rng.choice([0, 0.5, 1])
    return np.float32(rng.normal(size=spec.shape) * is_present[:, np.newaxis])


def observations_of(spec, rng, largest=1):
    """One episode; masks allow at least the last integer of each branch, and others at random.

    What they allow is `largest` in them.
    """
    for _ in range(NUM_STEPS):
        observation = tf.nest.map_structure(
            lambda s: (
                rng.integers(256, size=s.shape, dtype=np.uint8)
                if s.dtype == tf.uint8
                else np.array(rng.integers(s.minimum, s.maximum + 1))
                if s.dtype == tf.int64
                else entities_of(s, rng)
                if is_entities(s)
                else rng.normal(size=s.shape).astype(np.float32)
            ),
            spec,
        )
        if has_mask(spec):
            mask = rng.integers(2, size=spec["action_mask"].shape).astype(np.float32)
            mask[[-1, -4, 2]] = 1  # the last of the branches of 3 + 2 + 3, or 2 + 3
            observation["action_mask"] = mask * largest
        yield observation


def episodes_of(agent, largest=1):
    """Yields episodes of (observation, leaves of the action in TensorFlow); all act together."""
    spec, rng = agent.policy.time_step_spec.observation, np.random.default_rng(2)
    episodes = [list(observations_of(spec, rng, largest)) for _ in range(NUM_EPISODES)]
    state, actions = agent.policy.get_initial_state(NUM_EPISODES), []
    for observations in zip(*episodes, strict=True):
        batch = tf.nest.map_structure(lambda *leaves: tf.constant(np.stack(leaves)), *observations)
        rewards = tf.zeros([NUM_EPISODES])
        time_step = ts.transition(batch, rewards) if actions else ts.restart(batch, NUM_EPISODES)
        action, state, _ = agent.policy.action(time_step, state)
        actions.append([part.numpy() for part in tf.nest.flatten(action)])
    for k, episode in enumerate(episodes):
        yield [
            (observation, [part[k] for part in action])
            for observation, action in zip(episode, actions, strict=True)
        ]


def written(agent, name, tmp_path):
    spec = agent.policy.time_step_spec.observation
    observation = next(observations_of(spec, np.random.default_rng(3)))
    time_step = ts.restart(observation)
    greedy = TfActingPolicy(agent.policy)
    action, _ = greedy.action(time_step, greedy.initial_state())
    tmp_path.mkdir(exist_ok=True)
    models.write(models.RestoredPolicy(agent, observation, action), name, tmp_path / name)
    return tmp_path / name


def runner_of(name):
    if name == "onnx":
        pytest.importorskip("onnxruntime", reason="the packages of locks/test.lock are missing")
        from tfagents_system.export import onnx_runner

        return onnx_runner
    return {"numpy": numpy_runner, "savedmodel": savedmodel_runner, "tflite": tflite_runner}[name]


def as_parts(observation):
    return models.named_parts(observation, "") if tree.is_nested(observation) else observation


def joined(nest):
    """[B, 3 + 6] of the leaves [B, 3] and [B, 2, 3]; pixels from 0 to 1."""
    angles, pixels = tf.nest.flatten(nest)
    return tf.concat([angles, tf.reshape(tf.cast(pixels, tf.float32), [-1, 6]) / 255], axis=1)


CASES = {
    "vector": (VECTOR, {}, None, FORMATS),
    "lstm": (VECTOR, {"recurrent": True}, None, FORMATS),
    "gru": (VECTOR, {"recurrent": True, "rnn_type": "gru", "rnn_layers": 2}, None, FORMATS),
    "rnn": (VECTOR, {"recurrent": True, "rnn_type": "rnn"}, None, FORMATS),
    "shared summarizer": (
        VECTOR,
        {"recurrent": True, "rnn_layers": 2, "share_summarizer": True},
        None,
        FORMATS,
    ),
    "discrete": (VECTOR, {"action_spec": ONE_OF_THREE}, None, FORMATS),
    "branches": (VECTOR, {"action_spec": BRANCHES}, None, FORMATS),
    "nested action": (
        VECTOR,
        {"action_spec": {"tools": BRANCHES, "arm": ACTION, "grip": ONE_OF_THREE}},
        None,
        FORMATS,
    ),
    "nested action, lstm": (
        VECTOR,
        {"action_spec": {"arm": ACTION, "tools": BRANCHES}, "recurrent": True},
        None,
        FORMATS,
    ),
    "masked": (
        {"observation": VECTOR, "action_mask": tf.TensorSpec([2 + 3], tf.float32)},
        {"action_spec": BRANCHES},
        None,
        FORMATS,
    ),
    "masked nested action, lstm": (
        {"observation": VECTOR, "action_mask": tf.TensorSpec([3 + 2 + 3], tf.float32)},
        {"action_spec": {"a": ONE_OF_THREE, "arm": ACTION, "b": BRANCHES}, "recurrent": True},
        None,
        FORMATS,
    ),
    "category": (PLACE, {"action_spec": ONE_OF_THREE}, None, FORMATS),
    "categories, normalized, lstm": (
        {"arm": VECTOR, "cards": CARDS, "place": PLACE},
        {"normalize_observations": True, "recurrent": True},
        None,
        FORMATS,
    ),
    "image": (IMAGE, {}, None, FORMATS),
    "normalized": (VECTORS, {"normalize_observations": True}, None, FORMATS),
    "normalized, lstm": (
        VECTOR,
        {"normalize_observations": True, "recurrent": True},
        None,
        FORMATS,
    ),
    "normalized, image": (
        {"camera": IMAGE, "arm": VECTOR},
        {"normalize_observations": True},
        None,
        FORMATS,
    ),
    "privileged": (
        VECTORS | {"state": VECTOR},
        {"critic_observations": ["state", "goal"], "normalize_observations": True},
        None,
        FORMATS,
    ),
    "vectors": (VECTORS, {}, None, FORMATS),
    "names of the graph": (OF_NAMES, {}, None, FORMATS),
    "names of the graph, gru": (
        OF_NAMES,
        {"recurrent": True, "rnn_type": "gru"},
        None,
        FORMATS,
    ),
    "names of the graph, nested action": (
        {"action_arm": VECTOR, "arm.center": VECTOR, "arm": VECTOR},
        {"action_spec": {"arm": ACTION, "tools": BRANCHES}},
        None,
        FORMATS,
    ),
    "names of the graph, mask": (
        {"observation": VECTOR, "action_mask": tf.TensorSpec([2 + 3], tf.float32)},
        {"action_spec": {"arm": ACTION, "mask": BRANCHES}},
        None,
        FORMATS,
    ),
    "tuple": ((VECTOR, VECTOR), {}, None, FORMATS),
    "punctuation": (PUNCTUATED, {}, None, FORMATS),
    "board": ({"board": BOARD, "place": PLACE}, {"action_spec": ONE_OF_THREE}, None, FORMATS),
    "gray image": (GRAY, {}, None, FORMATS),
    "offpcc": (SMALL, {"image_encoder": "offpcc"}, None, FORMATS),
    "fully_connected": (COLORS, {"image_encoder": "fully_connected"}, None, FORMATS),
    "cameras, crossq": (CAMERAS, {"algorithm": "crossq"}, None, FORMATS),
    "cameras": (CAMERAS, {"normalize_observations": True}, None, FORMATS),
    "cameras, lstm": (
        CAMERAS,
        {"recurrent": True, "share_summarizer": True},
        None,
        FORMATS,
    ),
    "entities": (BLOCKS, {}, None, FORMATS),
    "entities, normalized": (
        {"blocks": BLOCKS, "speed": VECTOR, "trees": TREES, "place": PLACE},
        {"normalize_observations": True},
        None,
        FORMATS,
    ),
    "entities, lstm": (
        {"blocks": BLOCKS, "speed": VECTOR},
        {"recurrent": True},
        None,
        FORMATS,
    ),
    "entities, cameras": (CAMERAS | {"blocks": BLOCKS, "trees": TREES}, {}, None, FORMATS),
    "entities, crossq": (
        {"blocks": BLOCKS, "speed": VECTOR},
        {"algorithm": "crossq"},
        None,
        FORMATS,
    ),
    "goals": (
        {"place": GOAL_PLACE, "speed": VECTOR, "target": TARGET},
        {"normalize_observations": True},
        None,
        FORMATS,
    ),
    "goals, one layer": (TARGET, {"actor_fc_layer_params": (6,)}, None, FORMATS),
    "goals, lstm": (
        {"blocks": BLOCKS, "target": TARGET, "speed": VECTOR},
        {"recurrent": True},
        None,
        FORMATS,
    ),
    "goals, camera": (
        {"camera": SMALL, "place": GOAL_PLACE, "target": TARGET},
        {"normalize_observations": True},
        None,
        FORMATS,
    ),
    "vectors, lstm": (VECTORS, {"recurrent": True}, None, FORMATS),
    "nest": (
        NEST,
        {},
        tf.keras.layers.Lambda(lambda leaves: joined(leaves)),
        ("savedmodel", "tflite"),
    ),
}


EVERYDAY = (
    "vector",
    "lstm",
    "discrete",
    "nested action",
    "masked",
    "category",
    "image",
    "normalized",
    "gray image",
    "entities, normalized",
    "goals",
    "names of the graph, gru",
    "names of the graph, nested action",
    "names of the graph, mask",
    "privileged",
    "punctuation",
    "tuple",
    "nest",
)  # .ci/runs has the others, too


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[] if case in EVERYDAY else pytest.mark.system) for case in CASES],
)
def test_every_format_acts_as_the_policy_on_1000_observations(case, tmp_path):
    spec, settings, combiner, names = CASES[case]
    agent = make_agent(spec, combiner, **settings)
    episodes = list(episodes_of(agent))
    leaves = tf.nest.flatten(agent.action_spec)
    for index, leaf in enumerate(leaves):
        spread = np.std([action[index] for episode in episodes for _, action in episode], axis=0)
        # One choice of a branch may still be always the best.
        assert (spread.max() if leaf.dtype.is_integer else spread.min()) > 1e-3
    limit = 1e-4 if "image" in case else 1e-5  # sums over an image differ from CPU to CPU
    for name in names:
        policy = runner_of(name).Policy(written(agent, name, tmp_path))
        count = 0
        for episode in episodes:
            policy.reset()
            for observation, expected in episode:
                action = policy.action(as_parts(observation))
                assert isinstance(action, dict) == isinstance(agent.action_spec, dict)
                for part, wanted, leaf in zip(tree.flatten(action), expected, leaves, strict=True):
                    dtype = leaf.dtype.as_numpy_dtype
                    assert (part.shape, part.dtype) == (wanted.shape, dtype)
                    np.testing.assert_allclose(part, wanted, rtol=limit, atol=limit, err_msg=name)
                count += 1
        assert count == 1000


@pytest.mark.parametrize("largest", [0.25, 255, -1])
@pytest.mark.parametrize("name", FORMATS)
def test_a_mask_allows_what_is_not_zero(name, largest, tmp_path):
    spec, settings, _, _ = CASES["masked"]
    agent = make_agent(spec, **settings)
    policy = runner_of(name).Policy(written(agent, name, tmp_path))
    for observation, (expected,) in next(episodes_of(agent, largest)):
        assert policy.action(observation).tolist() == expected.tolist()


@pytest.mark.parametrize("name", FORMATS)
def test_a_runner_takes_the_whole_observation_of_privileged_critics(name, tmp_path):
    agent = make_agent(VECTORS | {"state": VECTOR}, critic_observations=["state", "arm"])
    folder = written(agent, name, tmp_path)
    policy = runner_of(name).Policy(folder)
    seen = {"goal": np.float32([0.1, 0.2, 0.3])}
    whole = seen | {"state": np.full(3, np.nan), "arm": {"joints": np.zeros([2, 2])}}
    expected = policy.action(seen)
    np.testing.assert_array_equal(policy.action(as_parts(whole)), expected)
    of_file = FilePolicy(folder, tensor_spec.to_array_spec(agent.action_spec))
    action, _ = of_file.action(ts.restart(whole), of_file.initial_state())
    np.testing.assert_array_equal(action, expected)


def inputs_of(name, folder):
    """Names of the inputs of a model, without those of its state."""
    policy = runner_of(name).Policy(folder)
    if name == "numpy":
        return [str(part) for part in policy.arrays["parts"]]
    if name == "onnx":
        return [part.name for part in policy.session.get_inputs()]
    return list(policy.specs)


@pytest.mark.parametrize("name", FORMATS)
def test_no_format_has_an_input_for_what_only_critics_see(name, tmp_path):
    spec = VECTORS | {"state": VECTOR}
    agent = make_agent(spec, critic_observations=["state", "arm"])
    assert inputs_of(name, written(agent, name, tmp_path)) == ["goal"]
    of_all = written(make_agent(spec), name, tmp_path / "all")
    assert sorted(inputs_of(name, of_all)) == ["arm_joints", "goal", "state"]


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("spec", [VECTOR, IMAGE], ids=["float32", "uint8"])
@pytest.mark.parametrize("name", FORMATS)
def test_no_runner_acts_on_what_is_not_finite_in_float32_and_its_state_stays(name, spec, tmp_path):
    policy = runner_of(name).Policy(written(make_agent(spec, recurrent=True), name, tmp_path))
    first, second = np.resize([1, 2, 3], spec.shape), np.resize([200, 0, 1], spec.shape)
    policy.action(first)
    expected = policy.action(second)
    policy.reset()
    policy.action(first)
    for bad in (np.nan, np.inf, 1e39):  # float32 ends at 3.4e38
        with pytest.raises(ValueError, match="infs or NaNs"):
            policy.action(np.where(second == 0, bad, second))
    np.testing.assert_array_equal(policy.action(second), expected)


ONE_NAME = {"a_b": VECTOR, "a": {"b": VECTOR}}
ONE_NAME_OF_ACTIONS = {"a_b": ACTION, "a": {"b": ACTION}}
ONE_NAME_MESSAGE = r"the leaves \['a', 'b'\] and \['a_b'\], which are both 'a_b'"


@pytest.mark.parametrize("name", [*FORMATS, "unity"])
def test_two_parts_of_one_name_are_refused(name, tmp_path):
    with pytest.raises(ConfigError, match=f"The observation .* {ONE_NAME_MESSAGE}"):
        written(make_agent(ONE_NAME), name, tmp_path / "observation")
    agent = make_agent(VECTOR, action_spec=ONE_NAME_OF_ACTIONS)
    with pytest.raises(ConfigError, match=f"The action .* {ONE_NAME_MESSAGE}"):
        written(agent, name, tmp_path / "action")


def test_a_policy_in_a_file_takes_no_two_parts_of_one_name(tmp_path):
    file = tmp_path / "still.py"
    file.write_text("class Policy:\n    def action(self, observation): return [0, 3]")
    with pytest.raises(ConfigError, match=f"The action .* {ONE_NAME_MESSAGE}"):
        FilePolicy(file, tensor_spec.to_array_spec(ONE_NAME_OF_ACTIONS))
    policy = FilePolicy(file, tensor_spec.to_array_spec(ACTION))
    seen = tree.map_structure(lambda spec: np.zeros(spec.shape, np.float32), ONE_NAME)
    with pytest.raises(ConfigError, match=f"The observation .* {ONE_NAME_MESSAGE}"):
        policy.action(ts.restart(seen), policy.initial_state())


@pytest.mark.parametrize("number", ["0.9", "1.7", "1e30", "float('nan')", "10**30"])
def test_only_integers_are_discrete_actions_of_a_policy_in_a_file(number, tmp_path):
    file = tmp_path / "odd.py"
    returned = f"1.0 if is_first else {number}"
    file.write_text(f"class Policy:\n    def action(self, is_first): return {returned}")
    policy = FilePolicy(file, tensor_spec.to_array_spec(ONE_OF_THREE))
    action, _ = policy.action(ts.restart(np.ones([], np.float32)), ())
    assert (action.dtype, action.tolist()) == (np.int64, 1)
    expected = r"returned the action .*; expected .* shapes: {'action': 'int64 \[\]'}"
    with pytest.raises(ConfigError, match=expected):
        policy.action(ts.restart(np.zeros([], np.float32)), ())


ONLY_NUMPY = """
import json, runpy, sys

class NothingElse:
    def find_spec(self, name, path=None, target=None):
        package = name.partition(".")[0]
        if package != "numpy" and package not in sys.stdlib_module_names:
            raise ImportError(f"{name} is not there")

sys.meta_path.insert(0, NothingElse())
try:
    import tensorflow
except ImportError as error:
    print(error)
folder = sys.argv[1]
example = json.load(open(f"{folder}/example.json"))
policy = runpy.run_path(f"{folder}/run_policy.py")["Policy"]()
print(max(abs(policy.action(example["observation"]) - example["action"])) < 1e-5)
"""


@pytest.mark.parametrize("recurrent", [False, True])
def test_numpy_runner_needs_numpy_alone(recurrent, tmp_path):
    folder = written(make_agent(VECTOR, recurrent=recurrent), "numpy", tmp_path)
    done = subprocess.run(
        [sys.executable, "-I", "-c", ONLY_NUMPY, folder], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("tensorflow is not there\nTrue\n", "")


GENERICS = ("dict", "list", "tuple", "Callable", "Iterator", "Mapping", "Sequence")


def evaluated(node):
    """The parts of a module that run: all but annotations, and what is for type checkers alone."""
    yield node
    for field, child in ast.iter_fields(node):
        if field in ("annotation", "returns"):
            continue
        for part in child if isinstance(child, list) else [child]:
            is_for_checkers = isinstance(part, ast.If) and ast.unparse(part.test) == "TYPE_CHECKING"
            if isinstance(part, ast.AST) and not is_for_checkers:
                yield from evaluated(part)


@pytest.mark.parametrize("name", [*FORMATS, "unity"])
def test_exported_files_run_under_python_3_8(name, tmp_path):
    for file in written(make_agent(VECTOR), name, tmp_path).glob("*.py"):
        source = file.read_text()
        assert "->" not in source or "from __future__ import annotations" in source, file.name
        for node in evaluated(ast.parse(source, feature_version=(3, 8))):
            found = f"{file.name}, line {getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.BinOp | ast.AugAssign):  # dict | dict
                assert not isinstance(node.op, ast.BitOr), found
            elif isinstance(node, ast.Attribute):
                assert node.attr not in ("removeprefix", "removesuffix"), found
            elif isinstance(node, ast.keyword):
                assert node.arg != "strict", found
            elif isinstance(node, ast.Subscript):  # such as list[int]
                assert ast.unparse(node.value) not in GENERICS, found


@pytest.mark.parametrize("name", FORMATS)
def test_runner_has_at_most_30_lines(name):
    source = pathlib.Path(models.__file__).with_name(f"{name}_runner.py").read_text()
    assert len(source.splitlines()) <= 30


def test_runner_lies_beside_the_model_with_an_example(tmp_path):
    folder = written(make_agent(VECTOR), "savedmodel", tmp_path)
    example = json.loads((folder / "example.json").read_text())
    policy = runpy.run_path(str(folder / "run_policy.py"))["Policy"]()
    np.testing.assert_allclose(
        policy.action(example["observation"]), example["action"], rtol=0, atol=1e-5
    )


class CustomActor(Params):
    def actor_ctor(self, obs_spec, action_spec):
        return ActorDistributionNetwork(obs_spec, action_spec, fc_layer_params=(4,))


@pytest.mark.parametrize("name", ["numpy", "onnx"])
def test_custom_network_and_combiner_are_refused_with_the_reason(name, tmp_path):
    with pytest.raises(ConfigError, match=f"{name} cannot hold .* ActorDistributionNetwork, no bu"):
        written(make_agent(VECTOR, params_class=CustomActor), name, tmp_path)
    (tmp_path / name).rmdir()
    agent = make_agent({"a": VECTOR, "b": VECTOR}, combiner=tf.keras.layers.Concatenate())
    with pytest.raises(ConfigError, match="preprocessing_combiner.*Export to savedmodel or tflite"):
        written(agent, name, tmp_path)


def test_onnx_tells_how_to_install_what_it_needs(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ConfigError, match="Install it: ./setup.sh --with onnx"):
        written(make_agent(VECTOR), "onnx", tmp_path)


def test_custom_network_can_be_a_saved_model(tmp_path):
    agent = make_agent(VECTOR, params_class=CustomActor)
    (episode, *_) = episodes_of(agent)
    policy = savedmodel_runner.Policy(written(agent, "savedmodel", tmp_path))
    for observation, (expected,) in episode:
        np.testing.assert_allclose(policy.action(observation), expected, rtol=0, atol=1e-5)


def test_what_tensorflow_lite_has_no_op_for_is_refused(tmp_path):
    class Determinant(Params):
        def actor_ctor(self, obs_spec, action_spec):
            self.preprocessing_combiner = tf.keras.layers.Lambda(
                lambda x: tf.linalg.det(tf.linalg.diag(tf.nest.flatten(x)[0]))[:, tf.newaxis]
            )
            return super().actor_ctor(obs_spec, action_spec)

    with pytest.raises(ConfigError, match="tflite cannot hold this policy: .*Use savedmodel"):
        written(make_agent(VECTOR, params_class=Determinant), "tflite", tmp_path)


class Stub:
    """A runner that keeps what it gets."""

    given = []

    def __init__(self, folder):
        pass

    def action(self, observation):
        self.given.append(observation)


@pytest.mark.parametrize("spec", [IMAGE, NEST | {"count": PLACE}])
def test_latency_is_that_of_arrays_as_an_environment_returns_them(spec, tmp_path, monkeypatch):
    folder = written(make_agent(spec), "savedmodel", tmp_path)
    monkeypatch.setattr(savedmodel_runner, "Policy", Stub)
    monkeypatch.setattr(Stub, "given", [])
    latency.measure(folder, "savedmodel", num_actions=1)
    specs = models.named_parts(spec, "observation")
    assert Stub.given
    for observation in Stub.given:
        parts = observation if isinstance(observation, dict) else {"observation": observation}
        assert parts.keys() == specs.keys()
        for name, part in parts.items():
            assert isinstance(part, np.ndarray)
            assert (part.dtype, part.shape) == (specs[name].dtype.as_numpy_dtype, specs[name].shape)


def test_latency_table_has_a_row_for_each_exported_format(tmp_path, capsys):
    agent = make_agent(VECTOR)
    written(agent, "numpy", tmp_path)
    with pytest.raises(ConfigError, match="no exported model"):
        latency.latency(str(tmp_path / "numpy"))
    latency.latency(str(tmp_path), num_actions=100)
    header, row = capsys.readouterr().out.splitlines()
    name, median, worst = row.split()
    assert header.split()[0] == "format"
    assert name == "numpy" and 0 < float(median) <= float(worst)
    (tmp_path / "numpy/example.json").write_text('{"observation": [0, 0]}')
    with pytest.raises(ConfigError, match="numpy is of an earlier version: call sac export again"):
        latency.latency(str(tmp_path))
    (tmp_path / "numpy/example.json").write_text('{"observation": [0,')  # cut by a full disk
    with pytest.raises(ConfigError, match="example.json: damaged .* call sac export again"):
        latency.latency(str(tmp_path))
