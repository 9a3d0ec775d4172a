"""Where the time of a train step goes: the whole step, and its matrix products alone.

Usage: taskset -c 0 python -m benchmarks.ours.train_step [--secs S]
Minibatches come from memory, so nothing else runs. One thread; the median of many short looks.
"""

import argparse
import collections
import statistics
import time
from collections.abc import Callable, Iterator

import tensorflow as tf
from tf_agents.environments import random_py_environment
from tf_agents.specs import array_spec

from benchmarks import program
from benchmarks.environments import FreeEnv
from tfagents_system.agents.construction import make_agent
from tfagents_system.learning.learner import Learner
from tfagents_system.services.codec import Codec, transition_spec
from tfagents_system.train_params_base import TrainParamsBase

BATCH, HIDDEN = 256, 256
OBSERVATION, ACTION = FreeEnv.observation_size, FreeEnv.action_size
STEPS_PER_LOOK = 10
PRODUCTS_PER_LOOK = 20
Sample = collections.namedtuple("Sample", "data")

# [m, k] x [k, n], which operand is transposed, and how many of them one train step takes: forward
# (target: actor, 2 critics; critics; actor, 2 critics), gradients of inputs, gradients of weights.
PRODUCTS = [
    (BATCH, HIDDEN, HIDDEN, "", 8),
    (BATCH, OBSERVATION + ACTION, HIDDEN, "", 6),
    (BATCH, OBSERVATION, HIDDEN, "", 2),
    (BATCH, HIDDEN, 2 * ACTION, "", 2),
    (BATCH, HIDDEN, 1, "", 6),
    (BATCH, HIDDEN, HIDDEN, "second", 5),
    (BATCH, HIDDEN, OBSERVATION + ACTION, "second", 2),
    (BATCH, 2 * ACTION, HIDDEN, "second", 1),
    (BATCH, 1, HIDDEN, "second", 4),
    (HIDDEN, BATCH, HIDDEN, "first", 3),
    (OBSERVATION + ACTION, BATCH, HIDDEN, "first", 2),
    (OBSERVATION, BATCH, HIDDEN, "first", 1),
    (HIDDEN, BATCH, 2 * ACTION, "first", 1),
    (HIDDEN, BATCH, 1, "first", 2),
]


class Params(TrainParamsBase):
    """Default hyperparameters, on random data of the Minitaur's sizes."""

    def env_ctor(self, *args, seed=None, **kwargs):
        """Returns an environment for its specs."""
        return random_py_environment.RandomPyEnvironment(
            array_spec.ArraySpec([OBSERVATION], "float32"),
            array_spec.BoundedArraySpec([ACTION], "float32", -1.0, 1.0),
        )


def train_step_secs(secs: float) -> float:
    """Returns the median seconds of a train step of the learner's compiled loop."""
    params = Params({"horizon": FreeEnv.horizon})
    agent, _ = make_agent(params, params.env_ctor())
    codec = Codec(transition_spec(agent.time_step_spec.observation, agent.action_spec))
    learner = Learner(agent, codec, lambda: _batches(codec))
    learner.run(1)  # compiles
    call, iterator = learner._train, learner._iterator
    return _median_secs(lambda: call(iterator, tf.constant(STEPS_PER_LOOK)), secs) / STEPS_PER_LOOK


def _batches(codec: Codec) -> Iterator[Sample]:
    (column,) = codec.columns
    data = tf.random.normal([16, BATCH, *column.shape], seed=1)
    dataset = tf.data.Dataset.from_tensor_slices(data).repeat()
    options = tf.data.Options()
    options.autotune.enabled = False
    options.threading.private_threadpool_size = 1
    return iter(dataset.map(lambda batch: Sample((batch,))).with_options(options))


def product_secs(m: int, k: int, n: int, transposed: str, secs: float) -> float:
    """Returns the median seconds of one matrix product [m, k] x [k, n]."""
    is_first, is_second = transposed == "first", transposed == "second"
    shape = [k, m] if is_first else [m, k]
    lefts = [tf.random.normal(shape) for _ in range(PRODUCTS_PER_LOOK)]  # equal ones are merged
    right = tf.random.normal([n, k] if is_second else [k, n])

    @tf.function
    def multiply(lefts, right):
        return [
            tf.matmul(left, right, transpose_a=is_first, transpose_b=is_second)[:1, :1]
            for left in lefts
        ]

    multiply(lefts, right)
    return _median_secs(lambda: multiply(lefts, right), secs) / PRODUCTS_PER_LOOK


def _median_secs(call: Callable[[], object], secs: float) -> float:
    looks, deadline = [], time.perf_counter() + secs
    while time.perf_counter() < deadline:
        started = time.perf_counter()
        call()
        looks.append(time.perf_counter() - started)
    return statistics.median(looks)


def main() -> None:
    """Measures and prints the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--secs", type=float, default=5.0, help="for the step and for all products")
    secs = parser.parse_args().secs
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    step = train_step_secs(secs)
    total = 0.0
    for m, k, n, transposed, count in PRODUCTS:
        each = product_secs(m, k, n, transposed, secs / len(PRODUCTS))
        total += count * each
        name = f"product_{m}_{k}_{n}" + (f"_{transposed}_transposed" if transposed else "")
        gflops = 2 * m * k * n / each / 1e9
        program.print_result(f"{name}_us", 1e6 * each, "us", count=count, gflops=gflops)
    program.print_result("products_ms", 1e3 * total, "ms")
    program.print_result("train_step_ms", 1e3 * step, "ms")


if __name__ == "__main__":
    program.run(main)
