"""Seconds from a peer's process start to its first finished gradient step, and its memory after.

Usage: python -m benchmarks.peers.startup --peer sb3|sbx [--environment Pendulum-v1] [--secs S]
Fills with as many random env steps as pendulum_params.py does.
"""

import os

from benchmarks import program
from benchmarks.peers.environments import make_environment
from benchmarks.peers.models import RateMeter, argument_parser, make_model, wait_until_ready
from benchmarks.process_stats import pss_mb, secs_since_start

NUM_RANDOM_STEPS = 1000


def main() -> None:
    """Measures and prints the results."""
    parser = argument_parser(__doc__.splitlines()[0])
    parser.add_argument("--environment", default="Pendulum-v1")
    parser.add_argument("--secs", type=float, default=10.0, help="of training before memory")
    arguments = parser.parse_args()
    peer = arguments.peer
    model = make_model(
        peer,
        make_environment(arguments.environment),
        buffer_size=20_000,
        learning_starts=NUM_RANDOM_STEPS,
        train_freq=1,
        gradient_steps=1,
    )
    model.learn(NUM_RANDOM_STEPS + 1, log_interval=None)  # ends with the first gradient step
    wait_until_ready(peer, model)
    secs = secs_since_start()
    meter = RateMeter(0, arguments.secs, lambda: None)
    model.learn(10**9, meter, log_interval=None, reset_num_timesteps=False)
    program.print_result("first_train_step_secs", secs, "s")
    program.print_result("pss_mb", pss_mb(os.getpid()), "MB")


if __name__ == "__main__":
    program.run(main)
