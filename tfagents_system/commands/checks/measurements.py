"""Measurements of a worker, from which `sac check` predicts a run."""

import dataclasses
import time
from collections.abc import Mapping

from tf_agents.trajectories import time_step as ts

from tfagents_system.policies.acting import SlotPolicy

SMALL_LEAK_MB = 0.1  # per episode; allocators keep less
NUM_CALLS = 20  # of a policy that acts in several slots


@dataclasses.dataclass
class Measured:
    """Measurements of one environment, for a worker that has all of its environments."""

    num_slots: int = 1  # environments or agents of one simulator
    num_simulators: int = 1  # for collection
    simulator_secs: float = 0.0  # per collected env step
    step_secs: float = 0.0  # per collected env step: simulator, policy, packing
    cpu_secs: float = 0.0  # the CPU time in `step_secs`
    greedy_step_secs: float = 0.0  # per env step of an evaluation
    episode_length: float = 0.0  # env steps, mean
    leak_mb: float = 0.0  # per episode of a simulator
    worker_own_mb: float = 0.0  # memory of a program with environments and agent, without libraries

    @property
    def num_at_once(self) -> int:
        """Environments and agents for which the worker calls its policy at once."""
        return self.num_slots * self.num_simulators

    @property
    def has_leak(self) -> bool:
        """True if episodes leak more memory than an allocator keeps."""
        return self.leak_mb >= SMALL_LEAK_MB

    def take_speed(
        self,
        secs: Mapping[str, float],
        cpu_secs: float,
        num_evaluated: int,
        simulator_secs: float,
        acting_secs: float,
    ) -> None:
        """Derives the speed of the worker.

        Args:
          secs: Per step of the eval environment: "env step", "acting" and "writing".
          cpu_secs: CPU time in these seconds.
          num_evaluated: Episodes that this environment runs at once.
          simulator_secs: Per step of an environment for collection.
          acting_secs: Of a call of the policy for `num_at_once`.
        """
        self.simulator_secs = simulator_secs / self.num_slots
        acting_secs /= self.num_at_once
        self.step_secs = self.simulator_secs + acting_secs + secs["writing"]
        self.cpu_secs = self.step_secs * min(max(cpu_secs, 0.0) / sum(secs.values()), 1.0)
        self.greedy_step_secs = (secs["env step"] + secs["acting"]) / num_evaluated


def acting_secs(policy: SlotPolicy, time_step: ts.TimeStep, num_slots: int) -> float:
    """Returns the time of a call of `policy` for several slots, which are all in one state."""
    slots = range(num_slots)
    states = [policy.initial_state(slot) for slot in slots]
    arguments = list(slots), [time_step] * num_slots, states
    policy.actions(*arguments)  # some policies compile here
    began = time.perf_counter()
    for _ in range(NUM_CALLS):
        policy.actions(*arguments)
    return (time.perf_counter() - began) / NUM_CALLS
