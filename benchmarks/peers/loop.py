"""Measures env steps/s of a peer's `learn`, with one gradient step for each or with none.

Example: python -m benchmarks.peers.loop --peer sbx --environment Pendulum-v1
Without gradient steps this is only collection: acting with the policy, stepping, storing.
"""

from typing import Annotated

from benchmarks import program
from benchmarks.measurements import PEERS
from benchmarks.peers.environments import make_environment
from benchmarks.peers.models import RateMeter, make_model, wait_until_ready
from tfagents_system.core.programs.command_line import AtLeast, OneOf

NUM_RANDOM_STEPS = 1000
NUM_WARMUP_STEPS = 1500


def main(
    peer: Annotated[str, OneOf(PEERS)],
    environment: str,
    gradient_steps: Annotated[int, OneOf((0, 1))] = 1,
    secs: Annotated[float, AtLeast(0)] = 40.0,
) -> None:
    """Measures and prints the results.

    Args:
      peer: Package to measure.
      environment: Environment to measure on.
      gradient_steps: Gradient steps for each env step.
      secs: How long to measure.
    """
    model = make_model(
        peer,
        make_environment(environment),
        buffer_size=100_000,
        learning_starts=NUM_RANDOM_STEPS,
        train_freq=1,
        gradient_steps=gradient_steps,
    )
    meter = RateMeter(NUM_WARMUP_STEPS, secs, lambda: wait_until_ready(peer, model))
    model.learn(10**9, meter, log_interval=None)
    program.print_result("env_steps_per_sec", meter.rate, "1/s")
    if gradient_steps:
        program.print_result("train_steps_per_sec", meter.rate, "1/s")


if __name__ == "__main__":
    program.run(main)
