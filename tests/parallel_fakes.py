"""A small environment with PettingZoo's parallel API, whose agents come, go and write a tape."""

import gymnasium
import numpy as np


class ParallelWorld:
    """Agents observe [number, episode, step]; each ends at random, by itself or by its time limit.

    `tape` has for each episode of an agent its steps (observation, action, reward, next
    observation, terminated, truncated). With `comes` an agent that is not there may begin.
    """

    metadata = {"render_modes": []}

    def __init__(self, num_agents=3, ends=0.2, limit=5, comes=0.0, space=None, mask=None):
        self.possible_agents = [f"walker_{number}" for number in range(num_agents)]
        self.agents = []
        self._space = space or gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._ends, self._limit, self._comes, self._mask = ends, limit, comes, mask
        self._rng, self._episode, self.tape, self.seeds = None, -1, [], []

    def observation_space(self, agent):
        box = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        if self._mask != "observation":
            return box
        mask = gymnasium.spaces.Box(0, 1, (int(self._space.n),), np.int8)
        return gymnasium.spaces.Dict({"observation": box, "action_mask": mask})

    def action_space(self, agent):
        return self._space

    def reset(self, seed=None, options=None):
        self.seeds.append(seed)
        if self._rng is None or seed is not None:
            self._rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self._steps = {}
        for agent in self.agents:
            self._begin(agent)
        observations = {agent: self._observe(agent) for agent in self.agents}
        return observations, {agent: self._info(agent) for agent in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents), (set(actions), self.agents)
        observations, rewards, terminations, truncations, infos = {}, {}, {}, {}, {}
        for agent, action in actions.items():
            before = self._plain(agent)
            self._steps[agent] += 1
            rewards[agent] = float(self._rng.normal())
            terminations[agent] = bool(self._rng.random() < self._ends)
            truncations[agent] = self._steps[agent] == self._limit
            is_last = terminations[agent] or truncations[agent]
            observations[agent] = self._observe(agent, is_last)
            infos[agent] = self._info(agent, is_last)
            self._open[agent].append(
                (before, np.copy(action), rewards[agent], self._plain(agent),
                 terminations[agent], truncations[agent])
            )  # fmt: skip
        ended = [a for a in self.agents if terminations[a] or truncations[a]]
        self.agents = [agent for agent in self.agents if agent not in ended]
        absent = [a for a in self.possible_agents if a not in self.agents and a not in ended]
        for agent in absent if self.agents else []:
            if self._rng.random() < self._comes:
                self._begin(agent)
                self.agents.append(agent)
                observations[agent], infos[agent] = self._observe(agent), self._info(agent)
                rewards[agent], terminations[agent], truncations[agent] = 0.0, False, False
        return observations, rewards, terminations, truncations, infos

    def _begin(self, agent):
        self._episode += 1
        self._steps[agent] = 0
        self.__dict__.setdefault("_open", {})[agent] = []
        self.__dict__.setdefault("_numbers", {})[agent] = self._episode
        self.tape.append(self._open[agent])

    def _plain(self, agent):
        number = self.possible_agents.index(agent)
        return np.array([number, self._numbers[agent], self._steps[agent]], np.float32)

    def mask_of(self, step, is_last=False):
        """The mask after `step` steps: one integer, and none at the end."""
        mask = np.zeros(int(self._space.n), np.int8)
        mask[step % len(mask)] = not is_last
        return mask

    def _observe(self, agent, is_last=False):
        plain = self._plain(agent)
        if self._mask != "observation":
            return plain
        return {"observation": plain, "action_mask": self.mask_of(self._steps[agent], is_last)}

    def _info(self, agent, is_last=False):
        info = {"position": 100 * self.possible_agents.index(agent) + self._steps[agent]}
        if self._mask == "info" and not is_last:
            info["action_mask"] = self.mask_of(self._steps[agent])
        return info
