"""Measures the learner on this machine; `sac check` starts it as a separate program.

Example: python -m tfagents_system.commands.checks.learner_speed 0,1 2
Trains on synthetic minibatches with the compiled loop of a run, without a replay server, and prints
one line of JSON. Reads the SAC_* variables.
"""

import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process import memory
from tfagents_system.core.process.process_start import launch_arguments
from tfagents_system.core.process.processes import adopt_orphans, descendants, end
from tfagents_system.core.programs.command_line import run_tool
from tfagents_system.core.settings.env_config import load_env_config
from tfagents_system.core.settings.variables import Settings

MEASURE_SECS = 5.0
MAX_CALLS = 100
TIMEOUT_SECS = 300.0


@dataclasses.dataclass(frozen=True)
class LearnerSpeed:
    """Measurements of a learner."""

    train_step_secs: float
    train_step_cpu_secs: float
    start_secs: float  # until the first train step
    own_mb: float  # memory without libraries
    libraries_mb: float  # libraries, which programs share
    arithmetic: str


def measure_learner(
    environ: Mapping[str, str],
    cpus: Sequence[int],
    num_threads: int,
    program_environ: Mapping[str, str],
) -> LearnerSpeed:
    """Returns the speed of the learner that the SAC_* variables of `environ` describe.

    Blocks for as long as a learner takes to start, and MEASURE_SECS; TIMEOUT_SECS at most.

    Args:
      environ: Environment of the program.
      cpus: Ids of the CPUs that it may use.
      num_threads: CPUs that the plan gives it, which may be fewer.
      program_environ: Variables that the launcher adds.

    Raises:
      ConfigError: If the learner fails; the message tells how.
    """
    command = [sys.executable, "-m", __name__, ",".join(map(str, cpus)), str(num_threads)]
    started = time.time()
    try:
        done = subprocess.run(
            command, **launch_arguments({**environ, **program_environ}),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_SECS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ConfigError(f"the learner took longer than {TIMEOUT_SECS:g} s to train") from None
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        errors = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise ConfigError(f"the learner failed: {errors[-1]}")
    found = json.loads(lines[-1])
    return LearnerSpeed(start_secs=found.pop("ready_at") - started, **found)


def print_speed(cpus: str, num_threads: int, /) -> None:
    """Prints the speed of the learner on some CPUs.

    Args:
      cpus: Their ids, such as 0,1.
      num_threads: Threads for train steps.
    """
    adopt_orphans()
    os.sched_setaffinity(0, map(int, cpus.split(",")))  # before TensorFlow starts its threads
    settings = Settings.from_environ(os.environ)
    print(json.dumps(_measure(settings, num_threads)), flush=True)
    end(descendants)  # they hold the pipe from which the caller reads
    os._exit(0)  # TensorFlow's threads can abort in static destructors


def _measure(settings: Settings, num_threads: int) -> dict[str, Any]:
    import tensorflow as tf

    from tfagents_system.assembly import assemble_apart
    from tfagents_system.commands.checks.local_learner import make_learner, num_items_per_step
    from tfagents_system.core.programs.params_loader import load_params

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(num_threads)
    params = load_params(settings.params, load_env_config(settings.config), settings.gin_bindings)
    made = assemble_apart(params, seed=1)
    reader, train_step = made.reader, made.train_step
    num_items = num_items_per_step(params, made.layout)
    items = [_made_up(num_items, column) for column in reader.columns]
    unrolls = num_threads > 1 and not params.recurrent and not settings.deterministic
    learner = make_learner(params, made, items, unrolls)
    learner.run(1)
    ready_at = time.time()
    learner.run(MAX_CALLS)  # shows how many steps fit into a call
    first, started, cpu_started = int(train_step), time.perf_counter(), time.process_time()
    while time.perf_counter() - started < MEASURE_SECS:
        learner.run(10**6)
    secs, cpu_secs = time.perf_counter() - started, time.process_time() - cpu_started
    num_steps = int(train_step) - first
    return {
        "train_step_secs": secs / num_steps,
        "train_step_cpu_secs": cpu_secs / num_steps,
        "ready_at": ready_at,
        "own_mb": memory.own_mb(),
        "libraries_mb": memory.resident_mb() - memory.own_mb(),
        "arithmetic": made.arithmetic,
    }


def _made_up(num_items: int, column: Any) -> Any:
    """Returns a column of small numbers, so that nothing diverges and no step type is FIRST."""
    import tensorflow as tf

    shape = [num_items, *column.shape]
    if column.dtype.is_floating:
        return tf.cast(tf.random.normal(shape, stddev=0.1, seed=1), column.dtype)
    return tf.cast(tf.random.uniform(shape, maxval=2, dtype=tf.int32, seed=1), column.dtype)


if __name__ == "__main__":
    run_tool(print_speed, sys.argv)
