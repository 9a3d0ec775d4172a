"""Measures gradient steps/s of the learner, fed by a replay server on the same cores.

Example: python -m benchmarks.ours.learner --secs 10
The learner is sac_train.py as the launcher starts it; it also publishes the policy twice a second.
"""

import os
import pathlib
import tempfile
import time
from collections.abc import Sequence
from typing import Annotated

import tensorflow as tf

from benchmarks import program
from benchmarks.environments import FreeEnv
from benchmarks.flops import sac_update_flops
from benchmarks.ours.layouts import PackedLayout, images_layout
from benchmarks.ours.programs import (
    check_runs,
    make_experiment,
    next_report,
    program_specs,
    replay_server,
    running,
)
from benchmarks.process_stats import cpu_secs
from tfagents_system.agents.agent_settings import normalizes_rewards
from tfagents_system.core.programs.command_line import AtLeast, OneOf
from tfagents_system.core.programs.params_loader import load_run
from tfagents_system.core.state.reports import LearnerReport
from tfagents_system.data.item_layout import ItemLayout

WARMUP_SECS = 5.0
BATCH_SIZE = 256
UPDATE_FLOPS = sac_update_flops(
    FreeEnv.observation_size, FreeEnv.action_size, (256, 256), BATCH_SIZE
)


def measure(
    folder: pathlib.Path,
    environment: str,
    gin_bindings: Sequence[str],
    secs: float,
    num_transitions: int,
) -> tuple[str, float, float, float]:
    """Returns the algorithm, train steps/s, and CPU seconds per step of learner and server."""
    paths = make_experiment(folder / "experiment", environment, gin_bindings)
    params = load_run(str(paths.root)).params
    items = ItemLayout.from_settings(params)
    with replay_server(folder / "replay", num_transitions) as server:
        if environment == "FreeEnv":
            layout = PackedLayout(items, stores_return=normalizes_rewards(params))
        else:
            layout = images_layout(items)
        layout.insert(server.address, num_transitions)
        spec = program_specs(paths, server.address)["learner"]
        # With several CPUs, also waits for the loop of a long run; that would take images an hour.
        num_loops = min(2, len(spec.cpus)) if environment == "FreeEnv" else 1
        log = paths.stdout("learner")
        with running(spec.argv, spec.env, log) as learner:

            def snapshot() -> tuple[LearnerReport, float, float]:
                report = next_report(
                    paths,
                    "learner",
                    lambda r: r.graph_traces == num_loops,
                    lambda: check_runs(learner, log),
                )
                return report, cpu_secs(learner.pid), cpu_secs(server.pid)

            snapshot()
            time.sleep(WARMUP_SECS)
            first, *first_cpu = snapshot()
            time.sleep(secs)
            last, *last_cpu = snapshot()
    num_steps = last.train_step - first.train_step
    learner_secs, server_secs = (b - a for a, b in zip(first_cpu, last_cpu, strict=True))
    rate = num_steps / (last.written_at - first.written_at)
    return params.algorithm, rate, learner_secs / num_steps, server_secs / num_steps


def product_flops_per_sec(secs: float = 2.0) -> float:
    """Returns the FLOP/s of float32 products 256 x 256 x 256 on one thread."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    size, count = 256, 100

    @tf.function
    def multiply(product, matrix):
        for _ in range(count):
            product = tf.matmul(product, matrix)
        return product

    matrix = tf.random.normal([size, size]) / size**0.5  # products keep their size
    multiply(matrix, matrix)
    num_calls, started = 0, time.process_time()
    while time.process_time() - started < secs:
        multiply(matrix, matrix).numpy()
        num_calls += 1
    return num_calls * count * 2 * size**3 / (time.process_time() - started)


def main(
    binding: tuple[str, ...] = (),
    environment: Annotated[str, OneOf(("FreeEnv", "ImageEnv"))] = "FreeEnv",
    secs: Annotated[float, AtLeast(0)] = 20.0,
    num_transitions: Annotated[int, AtLeast(1)] = 50_000,
) -> None:
    """Measures and prints the results.

    Args:
      binding: gin binding, in addition to the benchmark's.
      environment: FreeEnv, or ImageEnv. Floating-point operations are only counted of SAC on
        FreeEnv.
      secs: How long to measure.
      num_transitions: Transitions in the replay buffer.
    """
    with tempfile.TemporaryDirectory() as folder:
        algorithm, rate, learner_secs, server_secs = measure(
            pathlib.Path(folder), environment, binding, secs, num_transitions
        )
    program.print_result("learner_cpu_ms_per_train_step", 1e3 * learner_secs, "ms")
    program.print_result("replay_cpu_ms_per_train_step", 1e3 * server_secs, "ms")
    if environment != "FreeEnv" or algorithm != "sac":
        program.print_result("train_steps_per_sec", rate, "1/s")
        return
    flops_per_sec = product_flops_per_sec()
    num_cores = len(os.sched_getaffinity(0))
    share = rate * UPDATE_FLOPS / (flops_per_sec * num_cores)
    program.print_result("train_steps_per_sec", rate, "1/s", update_gflop=UPDATE_FLOPS / 1e9)
    program.print_result("share_of_matrix_product_ceiling", 100 * share, "%")
    program.print_result("matrix_product_gflops_per_core", flops_per_sec / 1e9, "Gflop/s")


if __name__ == "__main__":
    program.run(main)
