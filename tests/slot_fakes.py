"""A simulator with several slots, whose episodes have the lengths that the test says."""

import numpy as np
from replay_fakes import EpisodeStepEnv
from tf_agents.trajectories import time_step as ts


class SlotEnv(EpisodeStepEnv):
    """Each slot's episodes have the lengths of its list, the last of which repeats; reward is 1.

    An observation has EpisodeStepEnv's spec: the slot, and the step within the episode. A slot of
    length 0 has no agent.
    """

    def __init__(self, lengths, fails_at=None):
        super().__init__()
        self._lengths, self._fails_at = lengths, fails_at
        self.num_slots = len(lengths)
        self._episodes, self._steps = [-1] * self.num_slots, [0] * self.num_slots
        self.tape = []  # "reset", and the slots that act in each step

    def _length(self, slot):
        lengths = self._lengths[slot]
        return lengths[min(self._episodes[slot], len(lengths) - 1)]

    def _observe(self, slot):
        spec = self.observation_spec()
        observation = np.zeros(spec.shape, spec.dtype)
        observation.reshape(-1)[:2] = slot, self._steps[slot]
        return observation

    def reset_slots(self, slots):
        if len(slots) == self.num_slots:
            self.tape.append("reset")
            self._episodes = [-1] * self.num_slots
        for slot in slots:
            self._episodes[slot] += 1
            self._steps[slot] = 0
        return {slot: ts.restart(self._observe(slot)) for slot in slots if self._length(slot)}

    def step_slots(self, actions):
        self.tape.append(tuple(sorted(actions)))
        if len(self.tape) == self._fails_at:
            raise RuntimeError("the build ended")
        answers = {}
        for slot in actions:
            self._steps[slot] += 1
            is_last = self._steps[slot] == self._length(slot)
            make = ts.termination if is_last else ts.transition
            answers[slot] = make(self._observe(slot), reward=np.float32(1))
        return answers

    def slot_info(self, slot):
        return {"speed": 10 * slot + self._steps[slot]}
