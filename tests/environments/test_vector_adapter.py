"""Vector environments of gymnasium: what their automatic resets do not do to episodes."""

import gymnasium
import numpy as np
import pytest
from fakes import FakeClock
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from replay_fakes import SleepingWatchdog

from tfagents_system.collection.info_numbers import InfoNumbers
from tfagents_system.collection.side_by_side import SideBySide
from tfagents_system.collection.slot_environments import SimulatorSlots
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.meters import PhaseTimer
from tfagents_system.environments.replaceable import EnvironmentFailure, ReplaceableEnvironment
from tfagents_system.environments.vector_adapter import GymnasiumVectorEnvironment
from tfagents_system.policies.acting import RandomPolicy

MODES = list(AutoresetMode)


class TapeEnv(gymnasium.Env):
    """Observes [number, episode, step]; ends at random; its tape has all its transitions."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, number, ends_at=0.3, is_odd=False):
        self.number, self._ends_at, self._is_odd = number, ends_at, is_odd
        self.episode, self.tape = -1, []

    def _observe(self):
        return np.array([self.number, self.episode, self.position], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.position = self.episode + 1, 0
        return self._observe(), {"first": self.number}

    def step(self, action):
        before = self._observe()
        self.position += 1
        reward = float(self.np_random.normal())
        terminated = bool(self.np_random.random() < self._ends_at)
        truncated = self.position == 5
        if self._is_odd and self.episode == 1:
            raise RuntimeError("the motor is gone")
        self.tape.append((before, action.copy(), reward, self._observe(), terminated))
        info = {"success": terminated, "position": self.position}
        return self._observe(), reward, terminated, truncated, info


def make(mode, num=3, seed=7, **kwargs):
    """Returns the environments, and the adapter of their vector environment."""
    environments = [TapeEnv(number, **kwargs) for number in range(num)]
    vector = SyncVectorEnv([lambda e=e: e for e in environments], autoreset_mode=mode)
    return environments, GymnasiumVectorEnvironment(vector, seed)


def side_by_side(adapter, observe, horizon=99, remake=None):
    slots = SimulatorSlots(ReplaceableEnvironment(adapter, remake, SleepingWatchdog()))
    numbers = [InfoNumbers(("position:max",)) for _ in range(slots.num_slots)]
    return SideBySide(slots, horizon, observe, PhaseTimer("", FakeClock()), numbers)


def run(episodes, adapter, num_ticks):
    """Returns the ends of episodes."""
    policy, ends = RandomPolicy(adapter.action_spec(), 0), []
    for _ in range(num_ticks):
        ends += episodes.begin(policy, {slot: {} for slot in episodes.idle_slots})
        ends += episodes.tick(policy)
    return ends


def same(one, other):
    return len(one) == len(other) and all(
        np.array_equal(a, b) for x, y in zip(one, other, strict=True)
        for a, b in zip(x, y, strict=True)
    )  # fmt: skip


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("ends_at", [0.3, 0.0])  # at random; all at step 5
def test_each_transition_is_one_of_an_environment_and_none_is_missing(mode, ends_at):
    environments, adapter = make(mode, ends_at=ends_at)
    seen = [[] for _ in environments]

    def observe(slot, time_step, action, next_time_step, state):
        is_terminal = next_time_step.discount == 0
        assert not time_step.is_last() and not next_time_step.is_first()
        seen[slot].append(
            (time_step.observation, action, np.float32(next_time_step.reward),
             next_time_step.observation, is_terminal)
        )  # fmt: skip
        return True

    ends = run(side_by_side(adapter, observe), adapter, num_ticks=40)
    for slot, environment in enumerate(environments):
        tape = [(*t[:2], np.float32(t[2]), *t[3:]) for t in environment.tape]
        assert same(seen[slot], tape)
        assert len(tape) >= 25  # a step of NEXT_STEP may be a reset
        # The info of the last step, not of the reset.
        episodes = [end.result for end in ends if end.slot == slot]
        assert len(episodes) >= 6
        lengths = [int(t[3][2]) for t in tape]
        is_end = [t[4] or t[3][2] == 5 for t in tape]
        assert [e.length for e in episodes] == [
            n for n, is_last in zip(lengths, is_end, strict=True) if is_last
        ]
        assert [e.numbers["position_max"] for e in episodes] == [e.length for e in episodes]
        assert [bool(e.success) for e in episodes] == [
            bool(t[4]) for t, is_last in zip(tape, is_end, strict=True) if is_last
        ]


def test_the_horizon_cuts_episodes_only_of_environments_that_it_can_reset():
    seen = []

    def observe(slot, time_step, action, next_time_step, state):
        seen.append((time_step.observation.tolist(), next_time_step.observation.tolist()))
        return True

    environments, adapter = make(AutoresetMode.DISABLED, num=2, ends_at=0.0)
    environments[1].position = 0
    ends = run(side_by_side(adapter, observe, horizon=3), adapter, num_ticks=7)
    assert [end.result.length for end in ends] == [3] * 4
    assert all(after == [before[0], before[1], before[2] + 1] for before, after in seen)

    environments, adapter = make(AutoresetMode.NEXT_STEP, num=2, ends_at=0.0)
    episodes = side_by_side(adapter, lambda slot, *_: slot == 0)
    with pytest.raises((ConfigError, EnvironmentFailure), match="resets it only at its own end"):
        run(episodes, adapter, num_ticks=3)


class NanEnv(TapeEnv):
    """The second step of the second episode has the reward NaN."""

    def step(self, action):
        observation, reward, *rest = super().step(action)
        is_broken = (self.episode, self.position) == (1, 2)
        return observation, np.nan if is_broken else reward, *rest


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_after_a_step_that_is_rejected_the_next_episode_begins_and_the_others_go_on(mode):
    environments = [NanEnv(0, ends_at=0.0), TapeEnv(1, ends_at=0.0)]
    vector = SyncVectorEnv([lambda e=e: e for e in environments], autoreset_mode=mode)
    adapter = GymnasiumVectorEnvironment(vector, 7)
    seen = {0: [], 1: []}

    def observe(slot, time_step, action, next_time_step, state):
        seen[slot].append(next_time_step.observation[1:].tolist())
        return bool(np.isfinite(next_time_step.reward))

    ends = run(side_by_side(adapter, observe), adapter, num_ticks=22)
    for slot in (0, 1):
        episodes = [end.result for end in ends if end.slot == slot]
        lengths = [5, 2 if slot == 0 else 5, 5]  # the simulator's episodes have 5 steps
        assert [episode.length for episode in episodes[:3]] == lengths
        assert [episode.is_complete for episode in episodes[:3]] == [n == 5 for n in lengths]
        assert seen[slot][: sum(lengths)] == [
            [episode, step] for episode, n in enumerate(lengths) for step in range(1, n + 1)
        ]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_failure_ends_the_episodes_of_all_slots_and_a_new_environment_begins(mode):
    _, adapter = make(mode, is_odd=True)
    _, good = make(mode)
    seen = []

    def observe(slot, time_step, action, next_time_step, state):
        seen.append((slot, next_time_step.observation.tolist()))
        return True

    episodes = side_by_side(adapter, observe, remake=lambda _: good)
    ends = run(episodes, adapter, num_ticks=30)
    failures = [end for end in ends if isinstance(end.result, EnvironmentFailure)]
    assert [end.slot for end in failures] == [0, 1, 2]
    assert len({id(end.result) for end in failures}) == 1
    assert "the motor is gone" in str(failures[0].result)
    assert len(ends) > 10


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_as_a_single_environment_it_is_the_first_slot(mode):
    environments, adapter = make(mode)
    assert adapter.observation_spec().shape == (3,) and not adapter.batched
    for _ in range(6):
        time_step = adapter.reset()
        assert time_step.is_first() and time_step.observation[0] == 0
        while not time_step.is_last():
            before = time_step.observation
            time_step = adapter.step(np.float32([0.5]))
            assert time_step.observation.tolist() == [0, before[1], before[2] + 1]
        assert adapter.get_info()["position"] == time_step.observation[2]
    adapter.close()


def test_an_environment_that_does_not_say_how_it_resets_is_refused():
    vector = SyncVectorEnv([lambda: TapeEnv(0)])
    vector.metadata = {}
    with pytest.raises(ConfigError, match="'autoreset_mode'] is None; expected"):
        GymnasiumVectorEnvironment(vector, 0)


class OwnVector(gymnasium.vector.VectorEnv):
    """Two environments, of which each third step is an end; `change` edits what a step returns."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
    num_envs = 2
    single_observation_space = TapeEnv.observation_space
    single_action_space = TapeEnv.action_space
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2, 3), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2, 1), np.float32)

    def __init__(self, change):
        self._change, self._num_steps = change, 0

    def reset(self, *, seed=None, options=None):
        return np.zeros((2, 3), np.float32), {}

    def step(self, actions):
        self._num_steps += 1
        is_end = np.full(2, self._num_steps % 3 == 0)
        infos = {"final_obs": np.ones((2, 3)), "_final_obs": is_end}
        result = [np.zeros((2, 3)), np.ones(2), is_end, np.zeros(2, bool), infos]
        return self._change(result) or tuple(result)


def without_end(result):
    result[4] = {"final_observation": np.ones((2, 3)), "_final_observation": result[2]}


def with_one_reward(result):
    result[1] = 1.0


def with_one_observation(result):
    result[0] = result[0][:1]


def with_one_termination(result):
    result[2] = result[2][:1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            without_end,
            "OwnVector.step ended the episode of environment 0 without its last observat",
        ),
        (with_one_reward, r"returned rewards of shape \[\]; expected one for each of its 2 env"),
        (with_one_observation, "OwnVector returned 1 observations; expected one for each of its"),
        (with_one_termination, r"OwnVector.step returned terminations of shape \[1\]; expected"),
        (
            lambda result: tuple(result[:4]),
            r"returned 4 values; expected \(observations, rewards",
        ),
        (
            lambda result: "done",
            r"OwnVector.step returned a str; expected \(observations, rewards",
        ),
    ],
)
def test_a_vector_environment_that_returns_something_else_is_told_what(change, message):
    adapter = GymnasiumVectorEnvironment(OwnVector(change), 0)
    with pytest.raises((ConfigError, EnvironmentFailure), match=message):
        run(side_by_side(adapter, lambda *_: True), adapter, num_ticks=3)
