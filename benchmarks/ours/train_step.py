"""Measures the time of a train step by kind of op.

Example: taskset -c 0 python -m benchmarks.ours.train_step
Profiles the learner's compiled loop on one thread; minibatches come from memory, so nothing else
runs. Time outside ops belongs to the executor, which finds the next op, and to the profiler.
"""

import ast
import collections
import functools
import pathlib
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Annotated

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2
from tf_agents.environments import random_py_environment
from tf_agents.specs import array_spec

from benchmarks import program
from benchmarks.environments import FreeEnv
from tfagents_system.assembly import assemble
from tfagents_system.core.programs.command_line import AtLeast
from tfagents_system.data.sample_reader import SampleReader
from tfagents_system.learning.learner import Learner
from tfagents_system.learning.sources import Source
from tfagents_system.train_params_base import TrainParamsBase

BATCH_SIZE = 256
KINDS = {  # by a part of the op's type, which the profiler shows after its name
    "matrix_products": "MatMul",  # also _FusedMatMul, _MklMatMul, ...
    "adam": "ResourceApplyAdam",
}
CONTROL = ("While", "PartitionedCall", "StatefulPartitionedCall")  # these contain the others
Sample = collections.namedtuple("Sample", "data")


class Params(TrainParamsBase):
    """Default hyperparameters, with the Minitaur's sizes."""

    def env_ctor(self, *args, seed=None, **kwargs):
        """Returns an environment for its specs."""
        return random_py_environment.RandomPyEnvironment(
            array_spec.ArraySpec([FreeEnv.observation_size], "float32"),
            array_spec.BoundedArraySpec([FreeEnv.action_size], "float32", -1.0, 1.0),
        )


def make_learner(settings: Iterable[str] = ()) -> Learner:
    """Returns a learner with a compiled loop; an example of a setting is "policy_delay=2"."""
    params = Params({"horizon": FreeEnv.horizon})
    for setting in settings:
        name, _, value = setting.partition("=")
        setattr(params, name, ast.literal_eval(value))
    params.check("--setting")
    made = assemble(params, params.env_ctor())
    source = Source("replay", BATCH_SIZE, lambda: _batches(made.reader))
    learner = Learner(made.agent, made.reader, [source])
    learner.run(1)
    return learner


def _batches(reader: SampleReader) -> Iterator[Sample]:
    (column,) = reader.columns
    data = tf.random.normal([16, BATCH_SIZE, *column.shape], seed=1)
    dataset = tf.data.Dataset.from_tensor_slices(data).repeat()
    return iter(dataset.map(lambda batch: Sample((batch,))).prefetch(1))


def profile(learner: Learner, num_steps: int) -> tuple[float, dict[str, float]]:
    """Returns the seconds of one train step, and of its ops by type."""
    call = functools.partial(learner._loops[1], learner._iterators)
    call(num_steps)  # warms up
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        started = time.perf_counter()
        call(num_steps)
        step_secs = (time.perf_counter() - started) / num_steps
        tf.profiler.experimental.stop()
        (path,) = pathlib.Path(folder).rglob("*.xplane.pb")
        space = xplane_pb2.XSpace.FromString(path.read_bytes())
    secs: collections.Counter[str] = collections.Counter()
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                name, _, kind = plane.event_metadata[event.metadata_id].name.rpartition(":")
                if name.startswith("while/") and kind not in CONTROL:
                    secs[kind] += event.duration_ps / 1e12 / num_steps
    return step_secs, secs


def main(num_steps: Annotated[int, AtLeast(1)] = 200, setting: tuple[str, ...] = ()) -> None:
    """Measures and prints the results.

    Args:
      num_steps: Train steps to profile.
      setting: Hyperparameters, such as critic_layer_norm=True or algorithm="'tqc'".
    """
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    step_secs, secs = profile(make_learner(setting), num_steps)
    by_kind = {
        kind: sum(value for op, value in secs.items() if part in op) for kind, part in KINDS.items()
    }
    by_kind["other_ops"] = sum(secs.values()) - sum(by_kind.values())
    by_kind["between_ops"] = step_secs - sum(by_kind.values())
    for kind, value in by_kind.items():
        program.print_result(f"{kind}_ms", 1e3 * value, "ms", share=value / step_secs)
    program.print_result("train_step_ms", 1e3 * step_secs, "ms")


if __name__ == "__main__":
    program.run(main)
