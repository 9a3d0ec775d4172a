"""Measures env steps/s and train steps/s of a complete run in its steady state.

Example: python -m benchmarks.ours.loop --environment Pendulum-v1
Everything runs as run_script.sh starts it, with checkpoints and TensorBoard, but without
evaluation; with --unprotected, without checkpoints and journal.
"""

import time
from typing import Annotated

from benchmarks import program
from benchmarks.ours.programs import EXAMPLES, PEERS_NETWORKS, UNPROTECTED
from benchmarks.ours.training_runs import training_run
from tfagents_system.core.programs.command_line import AtLeast, OneOf
from tfagents_system.core.settings.training_settings import TrainingSettings
from tfagents_system.learning.learner import UNROLL_AFTER_STEPS

BINDINGS = (
    "TrainParams.num_iter = 1000000",
    "TrainParams.n_eval_episodes = 0",
    f"TrainParams.fresh_samples_per_step = {TrainingSettings.fresh_samples_per_step}",
    *PEERS_NETWORKS,
)
SHORT_FILL = {"MinitaurBulletEnv-v0": ("TrainParams.n_buffer_init_episodes = 1",)}
WARMUP_TRAIN_STEPS = UNROLL_AFTER_STEPS + 1000  # as in a long run


def main(
    environment: Annotated[str, OneOf(EXAMPLES)],
    binding: tuple[str, ...] = (),
    warmup_train_steps: Annotated[int, AtLeast(1)] = WARMUP_TRAIN_STEPS,
    secs: Annotated[float, AtLeast(0)] = 40.0,
    unprotected: bool = False,
) -> None:
    """Measures and prints the results.

    Args:
      environment: Environment to measure on.
      binding: gin binding, in addition to the benchmark's.
      warmup_train_steps: Train steps before the measurement.
      secs: How long to measure.
      unprotected: Without checkpoints and journals.
    """
    bindings = BINDINGS + SHORT_FILL.get(environment, ()) + binding
    bindings += UNPROTECTED if unprotected else ()
    with training_run(environment, bindings) as run:
        run.await_training(warmup_train_steps)
        first = [run.next_report(name) for name in ("learner", "worker_0")]
        time.sleep(secs)
        last = [run.next_report(name) for name in ("learner", "worker_0")]
    train_rate, env_rate = (
        (getattr(after, key) - getattr(before, key)) / (after.written_at - before.written_at)
        for key, before, after in zip(("train_step", "env_steps"), first, last, strict=True)
    )
    program.print_result("env_steps_per_sec", env_rate, "1/s")
    program.print_result("train_steps_per_sec", train_rate, "1/s")


if __name__ == "__main__":
    program.run(main)
