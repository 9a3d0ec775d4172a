"""Env steps per second of a peer's `learn`, with one gradient step for each or with none.

Usage: python -m benchmarks.peers.loop --peer sb3|sbx --environment NAME
           [--gradient_steps 0|1] [--secs S]
Without gradient steps this is collection alone: acting with the policy, stepping, storing.
"""

from benchmarks import program
from benchmarks.peers.environments import make_environment
from benchmarks.peers.models import RateMeter, argument_parser, make_model, wait_until_ready

NUM_RANDOM_STEPS = 1000
NUM_WARMUP_STEPS = 1500


def main() -> None:
    """Measures and prints the results."""
    parser = argument_parser(__doc__.splitlines()[0])
    parser.add_argument("--environment", required=True)
    parser.add_argument("--gradient_steps", type=int, choices=(0, 1), default=1)
    parser.add_argument("--secs", type=float, default=40.0)
    arguments = parser.parse_args()
    model = make_model(
        arguments.peer,
        make_environment(arguments.environment),
        buffer_size=100_000,
        learning_starts=NUM_RANDOM_STEPS,
        train_freq=1,
        gradient_steps=arguments.gradient_steps,
    )
    meter = RateMeter(
        NUM_WARMUP_STEPS, arguments.secs, lambda: wait_until_ready(arguments.peer, model)
    )
    model.learn(10**9, meter, log_interval=None)
    program.print_result("env_steps_per_sec", meter.rate, "1/s")
    if arguments.gradient_steps:
        program.print_result("train_steps_per_sec", meter.rate, "1/s")


if __name__ == "__main__":
    program.run(main)
