"""Measures a peer's seconds from process start to its first gradient step, and its memory then.

Example: python -m benchmarks.peers.startup --peer sbx
Fills the replay buffer with as many random env steps as pendulum_params.py.
"""

import os
from typing import Annotated

from benchmarks import program
from benchmarks.measurements import PEERS
from benchmarks.peers.environments import make_environment
from benchmarks.peers.models import RateMeter, make_model, wait_until_ready
from benchmarks.process_stats import pss_mb, secs_since_start
from tfagents_system.core.programs.command_line import AtLeast, OneOf

NUM_RANDOM_STEPS = 1000


def main(
    peer: Annotated[str, OneOf(PEERS)],
    environment: str = "Pendulum-v1",
    secs: Annotated[float, AtLeast(0)] = 10.0,
) -> None:
    """Measures and prints the results.

    Args:
      peer: Package to measure.
      environment: Environment to measure on.
      secs: Time of training before memory is measured.
    """
    model = make_model(
        peer,
        make_environment(environment),
        buffer_size=20_000,
        learning_starts=NUM_RANDOM_STEPS,
        train_freq=1,
        gradient_steps=1,
    )
    model.learn(NUM_RANDOM_STEPS + 1, log_interval=None)  # ends with the first gradient step
    wait_until_ready(peer, model)
    first_train_step_secs = secs_since_start()
    meter = RateMeter(0, secs, lambda: None)
    model.learn(10**9, meter, log_interval=None, reset_num_timesteps=False)
    program.print_result("first_train_step_secs", first_train_step_secs, "s")
    program.print_result("pss_mb", pss_mb(os.getpid()), "MB")


if __name__ == "__main__":
    program.run(main)
