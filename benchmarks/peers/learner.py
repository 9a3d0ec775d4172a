"""Measures gradient steps/s of a peer's `train`, from its replay buffer in memory.

Example: python -m benchmarks.peers.learner --peer sbx
SBX compiles one loop per number of gradient steps, so all calls have the same one.
"""

import time
from typing import Annotated

import numpy as np

from benchmarks import program
from benchmarks.environments import FreeEnv
from benchmarks.measurements import PEERS
from benchmarks.peers.environments import make_environment
from benchmarks.peers.models import DEFAULTS, make_model, wait_until_ready
from tfagents_system.core.programs.command_line import AtLeast, OneOf

STEPS_PER_CALL = {"FreeEnv": 1000, "ImageEnv": 5}
BATCH_SIZE = 256


def fill(model, num_transitions: int) -> None:
    """Puts random transitions into the model's replay buffer."""
    rng = np.random.default_rng(0)
    space, zero = model.observation_space, np.zeros(1, np.float32)

    def observe() -> np.ndarray:
        if space.dtype == np.uint8:
            return rng.integers(0, 256, (1, *space.shape), np.uint8)
        return rng.uniform(-1, 1, (1, *space.shape)).astype(np.float32)

    for _ in range(num_transitions):
        observation, next_observation = observe(), observe()
        action = rng.uniform(-1, 1, (1, FreeEnv.action_size)).astype(np.float32)
        model.replay_buffer.add(observation, next_observation, action, action[:, 0], zero, [{}])


def main(
    peer: Annotated[str, OneOf(PEERS)],
    environment: Annotated[str, OneOf(tuple(STEPS_PER_CALL))] = "FreeEnv",
    secs: Annotated[float, AtLeast(0)] = 20.0,
    num_transitions: Annotated[int, AtLeast(1)] = 50_000,
    algorithm: Annotated[str | None, OneOf(DEFAULTS)] = None,
) -> None:
    """Measures and prints the result.

    Args:
      peer: Package to measure.
      environment: FreeEnv, or ImageEnv, for which SB3 has a CnnPolicy but SBX's SAC does not.
      secs: How long to measure.
      num_transitions: Transitions in the replay buffer.
      algorithm: An algorithm of SBX, with its defaults; SAC otherwise.
    """
    steps_per_call = STEPS_PER_CALL[environment]
    settings = DEFAULTS[algorithm] if algorithm else {}
    model = make_model(peer, make_environment(environment), buffer_size=num_transitions, **settings)
    fill(model, num_transitions)

    def train() -> None:
        model.train(gradient_steps=steps_per_call, batch_size=BATCH_SIZE)
        wait_until_ready(peer, model)

    train()  # compiles
    num_calls, started = 0, time.monotonic()
    while time.monotonic() - started < secs:
        train()
        num_calls += 1
    rate = num_calls * steps_per_call / (time.monotonic() - started)
    program.print_result("train_steps_per_sec", rate, "1/s")


if __name__ == "__main__":
    program.run(main)
