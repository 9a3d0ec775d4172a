"""Guards the speed of the learner by counting what it does, which no busy machine can falsify."""

import collections
import re

import pytest
import tensorflow as tf
from cpu_marks import needs_dense_relu_ops
from replay_fakes import EpisodeStepEnv, codec_of, make_tiny_agent, serving
from tf_agents.specs import tensor_spec

from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.evaluation.rollouts import run_episode
from tfagents_system.learning import learner as learner_lib
from tfagents_system.learning.learner import UNROLLED_STEPS, Learner
from tfagents_system.learning.sampling_pool import SamplingPool
from tfagents_system.networks import dense_relu_ops
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.services.adder import Adder
from tfagents_system.services.replay import EXPERIENCE_TABLE, experience_dataset

NUM_FRESH, BATCH_SIZE, POOL_CAPACITY, NUM_INITIAL, NUM_IN_FLIGHT = 4, 16, 80, 40, 32


@pytest.fixture
def layout():
    return ItemLayout(2)


@pytest.fixture
def replay(tmp_path, layout):
    with serving(tmp_path / "reverb") as running:
        environment = EpisodeStepEnv(ends=[(1000, 1.0)])
        adder = Adder(running.client(), codec_of(environment), layout)
        run_episode(environment, RandomPolicy(environment.action_spec(), 0), 100, adder.add)
        adder.send()
        assert adder.is_confirmed(timeout_secs=5)
        yield running


@pytest.fixture
def codec():
    return codec_of(EpisodeStepEnv(ends=[(1000, 1.0)]))


@pytest.fixture
def dataset(replay, codec, layout):
    return experience_dataset(replay.address, codec.columns, layout, NUM_FRESH, NUM_IN_FLIGHT, 5.0)


def make_pool(codec):
    return SamplingPool(codec.columns, POOL_CAPACITY, NUM_INITIAL, NUM_FRESH, BATCH_SIZE)


def num_samples(replay):
    info = replay.client().server_info(timeout=5)[EXPERIENCE_TABLE]
    return info.rate_limiter_info.sample_stats.completed


def graph_ops(concrete_function):
    """Counts the ops of a function and of all functions that it calls, once for each function."""
    text = str(concrete_function.graph.as_graph_def())  # functions have their nodes in it, too
    return collections.Counter(re.findall(r'^\s+op: "(\w+)"$', text, re.MULTILINE))


def test_no_op_of_the_input_pipeline_sees_single_items(dataset):
    names, layer = [], dataset
    while layer is not None:
        layer = getattr(layer, "_dataset", layer)  # reverb's adapters of TF 1
        names.append(type(layer).__name__)
        layer = next(iter(layer._inputs()), None)
    assert names == ["_PrefetchDataset", "_BatchDataset", "_OptionsDataset", "TrajectoryDataset"]


@pytest.mark.parametrize("unroll_after, num_unrolled", [(1000, 0), (1, UNROLLED_STEPS)])
def test_many_train_steps_are_one_call_of_one_trace(
    dataset, codec, monkeypatch, unroll_after, num_unrolled
):
    agent, train_step = make_tiny_agent()
    pool = make_pool(codec)
    learner = Learner(agent, codec, lambda: iter(dataset), pool)
    traces, calls = [], []

    def counting(loop):
        return lambda *args: calls.append(args) or loop(*args)

    train = agent.train
    monkeypatch.setattr(agent, "train", lambda e: traces.append(e) or train(e))
    loops = {unrolled: counting(loop) for unrolled, loop in learner._loops.items()}
    monkeypatch.setattr(learner, "_loops", loops)
    monkeypatch.setattr(learner_lib, "UNROLL_AFTER_STEPS", unroll_after)
    learner.run(1)
    learner._steps_per_call = UNROLLED_STEPS
    learner.run(UNROLLED_STEPS)
    num_traces = len(traces)
    assert num_traces == 1 + num_unrolled
    for max_steps in (1, 7, 100, 3, 100):
        before, num_calls = int(train_step), len(calls)
        learner.run(max_steps)
        assert 1 <= int(train_step) - before <= max_steps
        assert len(calls) == num_calls + 1
    assert int(train_step) > 50
    assert len(traces) == num_traces


@pytest.mark.parametrize(
    "layout, has_pool", [(ItemLayout(2), True), (SINGLE, True), (SINGLE, False)]
)
def test_a_train_step_takes_its_fresh_items_from_the_server_and_no_more(
    replay, dataset, codec, layout, has_pool
):
    agent, train_step = make_tiny_agent()
    pool = make_pool(codec) if has_pool else None
    learner = Learner(agent, codec, lambda: iter(dataset), pool)
    while int(train_step) < 200:
        learner.run(200 - int(train_step))
    used = 200 * NUM_FRESH + (NUM_INITIAL if has_pool else 0)
    in_flight = NUM_IN_FLIGHT + 2 * NUM_FRESH
    assert used <= num_samples(replay) * layout.length <= used + in_flight


@pytest.mark.parametrize("unrolled", [1, UNROLLED_STEPS])
def test_the_graph_of_a_train_step_does_not_grow(dataset, codec, unrolled):
    """A copy, cast or branch too many shows here first; the number of ops knows no sizes."""
    agent, _ = make_tiny_agent(
        actor_fc_layer_params=(8, 8), critic_joint_fc_layer_params=(8, 8),
        matmul_precision="float32",
    )  # fmt: skip
    pool = make_pool(codec)
    learner = Learner(agent, codec, lambda: iter(dataset), pool)
    iterator = iter(dataset)
    ops = graph_ops(learner._loops[unrolled].get_concrete_function(iterator, tf.constant(1)))
    layers = 3
    forward = layers * (1 + 2 + 2 + 1 + 2)  # target: actor, 2 critics; critics; actor, 2 critics
    weights = layers * (2 + 1)  # gradients of two critics and of the actor
    inputs = 2 * (layers - 1) + 2 * layers + (layers - 1)  # of critics; through them; of the actor
    assert ops["MatMul"] == unrolled * (forward + weights + inputs)
    assert ops["IteratorGetNextSync"] == unrolled
    variables = 2 * layers * (2 + 1) + 1  # kernels, biases, log alpha
    assert ops["ResourceApplyAdam"] == unrolled * variables
    assert (
        ops["ResourceGather"] == 1 + unrolled
    )  # before the first step, and in each for the next one
    assert not {"MapDataset", "PyFunc", "EagerPyFunc", "Print"} & set(ops)


def bfloat16_learner(dataset, codec):
    agent, _ = make_tiny_agent(
        actor_fc_layer_params=(8, 8), critic_joint_fc_layer_params=(8, 8),
        matmul_precision="bfloat16",
    )  # fmt: skip
    return agent, Learner(agent, codec, lambda: iter(dataset))


@pytest.mark.parametrize("layout", [SINGLE])  # there is no pool
def test_bfloat16_products_are_those_of_inner_layers_and_no_op_else_is(dataset, codec, monkeypatch):
    monkeypatch.setattr(dense_relu_ops, "load", lambda: None)
    _, learner = bfloat16_learner(dataset, codec)
    function = learner._loops[1].get_concrete_function(iter(dataset), tf.constant(1))
    text = str(function.graph.as_graph_def())
    of_bfloat16 = collections.Counter(
        re.search(r'op: "(\w+)"', node)[1]
        for node in re.split(r"\bnode(?:_def)? {", text)
        if re.search(r'key: "T"\s+value {\s+type: DT_BFLOAT16', node)
    )
    forward = 1 + 1 + 2  # target: actor; actor, 2 critics; not the values in the TD error
    gradients = 2 * (2 + 1) + 2  # weights and inputs of critics and actor; through the critics
    assert of_bfloat16.pop("MatMul") == forward + gradients
    assert set(of_bfloat16) <= {"Transpose", "Identity"}  # nothing is added up in bfloat16


@needs_dense_relu_ops
@pytest.mark.parametrize("layout", [SINGLE])
def test_hidden_layers_are_one_op_each_and_nothing_is_cast(dataset, codec):
    _, learner = bfloat16_learner(dataset, codec)
    function = learner._loops[1].get_concrete_function(iter(dataset), tf.constant(1))
    ops = graph_ops(function)
    layers = 2 + 1 + 2  # through the inner layers of critics and actor; through the critics
    forward = 1 + 2 + 2 + 1 + 2  # target: actor, 2 critics; critics; actor, 2 critics
    assert ops["MatMulBiasRelu"] == ops["Float32MatMulBiasRelu"] == forward
    assert ops["MatMulBiasReluInputGrad"] == layers
    assert ops["MatMulBiasReluKernelGrad"] == layers  # of which TensorFlow prunes the last two
    assert "DT_BFLOAT16" not in str(function.graph.as_graph_def())


def test_what_acts_and_is_exported_stays_float32(dataset, codec):
    agent, learner = bfloat16_learner(dataset, codec)
    learner.run(1)
    policy = agent.policy
    spec = tensor_spec.add_outer_dim(agent.time_step_spec, 1)
    graph = tf.function(policy.action, autograph=False).get_concrete_function(spec).graph
    assert "DT_BFLOAT16" not in str(graph.as_graph_def())
