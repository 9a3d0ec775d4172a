"""A worker that stores env steps with other goals, too."""

import collections

import numpy as np
import pytest
from goal_fakes import Walk
from replay_fakes import all_items, codec_of, serving
from worker_fakes import FakeReader, TapePolicies, make_run, make_worker, no_fill, rows_of

from tfagents_system.collection.goal_relabelling import GoalRelabelling
from tfagents_system.core.errors import EXIT_STOPPED
from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.environments.gym_adapter import GymEnvironment
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.services.adder import Adder

HORIZON, NUM_EPISODES = 3, 6


class LongWalk(Walk):
    """Walks on from episode to episode, so that each env step has a number of its own."""

    place = 0.0

    def reset(self):
        return self._observe()


class StopAt:
    """A stop that is requested at an env step."""

    def __init__(self, env, num_steps):
        self._env, self._num_steps = env, num_steps

    def __bool__(self):
        return self._env.place >= self._num_steps


@pytest.mark.parametrize("layout", [SINGLE, ItemLayout(4)], ids=["single", "blocks"])
def test_each_env_step_is_stored_once_and_each_copy_with_a_goal_of_its_episode(tmp_path, layout):
    env = LongWalk()
    environment = GymEnvironment(env, seed=1)
    codec = codec_of(environment)
    run, reader = make_run(tmp_path), FakeReader()
    reader.publish_iteration(0)
    with serving(tmp_path / "replay") as replay:
        adder = Adder(replay.client(), codec, layout, burst_length=5)
        policy = RandomPolicy(environment.action_spec(), 0)
        worker = make_worker(
            run, adder, reader, environment=environment, stop=StopAt(env, HORIZON * NUM_EPISODES),
            policies=TapePolicies(policy),
            relabelling=GoalRelabelling(2, "future", np.random.default_rng(0), time_aware=False),
        )  # fmt: skip
        assert worker.run(no_fill, None) == EXIT_STOPPED
        adder.send()
        assert adder.is_confirmed(timeout_secs=60)
        items = all_items(
            replay.client(), codec, layout, key=lambda t: t.next_observation["observation"]
        )
    own, others = collections.Counter(), collections.Counter()
    for item in items:
        after = item.next_observation
        columns = [np.ravel(a) for a in (after["observation"], after["desired_goal"],
                   item.observation["desired_goal"], item.reward, item.discount)]  # fmt: skip
        for place, goal, goal_before, reward, discount in zip(*columns, strict=True):
            assert (goal, reward, discount) == (goal_before, -abs(place - goal), 1)
            if goal == 100:
                own[int(place)] += 1
                continue
            others[int(place)] += 1
            end_of_episode = -(-int(place) // HORIZON) * HORIZON
            assert place <= goal <= end_of_episode
    # The stop cuts the last episode; a block is incomplete at the end of the stream.
    complete = range(1, HORIZON * (NUM_EPISODES - 1) - layout.length)
    assert [own[place] for place in complete] == [1] * len(complete)
    assert [others[place] for place in complete] == [2] * len(complete)
    assert max(own.values()) == 1 and max(others.values()) == 2
    assert [int(row["env_step"]) for row in rows_of(run, "collect")][:5] == [3, 6, 9, 12, 15]
