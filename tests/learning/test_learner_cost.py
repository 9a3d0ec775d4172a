"""Guards the speed of the learner by counting what it does, which no busy machine can falsify."""

import collections
import re

import pytest
import tensorflow as tf
from kernel_marks import needs_int16
from replay_fakes import EpisodeStepEnv, codec_of, make_tiny_agent, serving
from tf_agents.specs import tensor_spec

from tfagents_system.agents import agent as agent_lib
from tfagents_system.collection.rollouts import run_episode
from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.data.sample_reader import SampleReader
from tfagents_system.learning import learner as learner_lib
from tfagents_system.learning.learner import UNROLLED_STEPS, Learner
from tfagents_system.learning.sampling_pool import SamplingPool
from tfagents_system.learning.sources import Mixer, Source
from tfagents_system.learning.train_loop import TrainLoop
from tfagents_system.learning.train_step import TrainStep
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.services.adder import Adder
from tfagents_system.services.experience import ExperienceBatches
from tfagents_system.services.replay import EXPERIENCE_TABLE

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
        assert adder.is_confirmed(timeout_secs=60)
        yield running


@pytest.fixture
def reader(layout):
    return SampleReader(codec_of(EpisodeStepEnv(ends=[(1000, 1.0)])), layout)


@pytest.fixture
def dataset(replay, reader, layout):
    return ExperienceBatches(replay.address, reader, NUM_FRESH, NUM_IN_FLIGHT, 5.0)


def make_pool(reader):
    return SamplingPool(reader, POOL_CAPACITY, NUM_INITIAL, NUM_FRESH, BATCH_SIZE)


def source_of(dataset, pool=None):
    """The only source of minibatches."""
    return Source("replay", BATCH_SIZE if pool else NUM_FRESH, lambda: iter(dataset), pool)


def graph_of_loop(agent, reader, source, unrolled):
    mixer = Mixer([source])
    return TrainLoop(TrainStep(agent, reader), mixer, unrolled).graph([source.make_iterator()])


def num_samples(replay):
    info = replay.client().server_info(timeout=5)[EXPERIENCE_TABLE]
    return info.rate_limiter_info.sample_stats.completed


def graph_ops(graph):
    """Counts the ops of a graph and of all functions that it calls, once for each function."""
    text = str(graph.as_graph_def())  # functions have their nodes in it, too
    return collections.Counter(re.findall(r'^\s+op: "(\w+)"$', text, re.MULTILINE))


def test_no_op_of_the_input_pipeline_sees_single_items(dataset):
    names, layers = [], [iter(dataset)._dataset]
    while layers:
        layer = layers.pop(0)
        layer = getattr(layer, "_dataset", layer)  # reverb's adapters of TF 1
        names.append(type(layer).__name__)
        layers += layer._inputs()
    of_batches = ["_OptionsDataset", "_PrefetchDataset", "_MapDataset", "_FilterDataset"]
    of_items = ["_ConcatenateDataset", "_TensorSliceDataset", "TrajectoryDataset"]
    assert names == [*of_batches, "_BatchDataset", *of_items]


@pytest.mark.parametrize("unroll_after, num_unrolled", [(1000, 0), (1, UNROLLED_STEPS)])
def test_many_train_steps_are_one_call_of_one_trace(
    dataset, reader, monkeypatch, unroll_after, num_unrolled
):
    agent, train_step = make_tiny_agent()
    learner = Learner(agent, reader, [source_of(dataset, make_pool(reader))])
    traces, calls = [], []
    gradients, call = agent.gradients, TrainLoop.__call__
    monkeypatch.setattr(agent, "gradients", lambda e: traces.append(e) or gradients(e))
    monkeypatch.setattr(TrainLoop, "__call__", lambda *args: calls.append(args) or call(*args))
    monkeypatch.setattr(learner_lib, "UNROLL_AFTER_STEPS", unroll_after)
    learner.run(1)
    if num_unrolled:
        assert learner.is_compiled(UNROLLED_STEPS, wait_secs=60)
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
    replay, dataset, reader, layout, has_pool
):
    agent, train_step = make_tiny_agent()
    pool = make_pool(reader) if has_pool else None
    learner = Learner(agent, reader, [source_of(dataset, pool)])
    while int(train_step) < 200:
        learner.run(200 - int(train_step))
    used = 200 * NUM_FRESH + (NUM_INITIAL if has_pool else 0)
    in_flight = NUM_IN_FLIGHT + 2 * NUM_FRESH
    assert used <= num_samples(replay) * layout.length <= used + in_flight


@pytest.mark.parametrize("unrolled", [1, UNROLLED_STEPS])
def test_the_graph_of_a_train_step_does_not_grow(dataset, reader, unrolled):
    """A copy, cast or branch too many shows here first; the number of ops knows no sizes."""
    agent, _ = make_tiny_agent(
        actor_fc_layer_params=(8, 8), critic_joint_fc_layer_params=(8, 8),
        matmul_precision="float32",
    )  # fmt: skip
    source = source_of(dataset, make_pool(reader))
    ops = graph_ops(graph_of_loop(agent, reader, source, unrolled))
    layers = 3
    forward = layers * (1 + 2 + 2 + 1 + 2)  # target: actor, 2 critics; critics; actor, 2 critics
    weights = layers * (2 + 1)  # gradients of two critics and of the actor
    inputs = 2 * (layers - 1) + 2 * layers + (layers - 1)  # of critics; through them; of the actor
    assert 0 < ops["MatMul"] <= unrolled * (forward + weights + inputs)
    variables = 2 * layers * (2 + 1) + 1  # kernels, biases, log alpha
    assert 0 < ops["ResourceApplyAdam"] <= unrolled * variables  # one op a variable
    assert not {"MapDataset", "PyFunc", "EagerPyFunc", "Print"} & set(ops)


def loop_of(dataset, reader, arithmetic):
    agent, _ = make_tiny_agent(
        actor_fc_layer_params=(8, 8), critic_joint_fc_layer_params=(8, 8),
        matmul_precision=arithmetic,
    )  # fmt: skip
    return graph_of_loop(agent, reader, source_of(dataset), unrolled=1)


@pytest.fixture
def any_cpu(monkeypatch):
    """A learner computes in what it is told to, also where that is slow."""
    monkeypatch.setattr(agent_lib, "resolve", lambda precision, host: precision)


@pytest.mark.parametrize("layout", [SINGLE])  # there is no pool
def test_nothing_but_products_is_computed_in_bfloat16(dataset, reader, any_cpu):
    text = str(loop_of(dataset, reader, "bfloat16").as_graph_def())
    of_bfloat16 = {
        re.search(r'op: "(\w+)"', node)[1]
        for node in re.split(r"\bnode(?:_def)? {", text)
        if re.search(r'key: "T"\s+value {\s+type: DT_BFLOAT16', node)
    }
    assert {"MatMul"} <= of_bfloat16 <= {"MatMul", "Transpose", "Identity"}


@needs_int16
@pytest.mark.parametrize("layout", [SINGLE])
def test_with_int16_a_hidden_layer_is_one_op_each_way_and_nothing_is_cast(dataset, reader):
    graph = loop_of(dataset, reader, "int16")
    ops = graph_ops(graph)
    forward = 1 + 2 + 2 + 1 + 2  # target: actor, 2 critics; critics; actor, 2 critics
    assert 0 < ops["MatMulBiasRelu"] <= forward and 0 < ops["Float32MatMulBiasRelu"] <= forward
    in_float32 = graph_ops(loop_of(dataset, reader, "float32"))
    assert 0 < ops["MatMul"] <= in_float32["MatMul"] - 2 * forward
    assert "DT_BFLOAT16" not in str(graph.as_graph_def())


@pytest.mark.parametrize("layout", [SINGLE])
def test_what_acts_and_is_exported_stays_float32(dataset, reader, any_cpu):
    agent, _ = make_tiny_agent(matmul_precision="bfloat16")
    Learner(agent, reader, [source_of(dataset)]).run(1)
    spec = tensor_spec.add_outer_dim(agent.time_step_spec, 1)
    graph = tf.function(agent.policy.action, autograph=False).get_concrete_function(spec).graph
    assert "DT_BFLOAT16" not in str(graph.as_graph_def())
