"""Env steps and their copies with other goals, after programs were killed."""

import collections
import os
import shutil
import signal

import numpy as np
import pytest
from faults.experience import BURST, lives_of
from faults.recovery import env_steps
from replay_fakes import codec_of, samples_of, serving
from system.tiny_run import HORIZON, TinyRun
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec

from tfagents_system.data.item_layout import ItemLayout
from tfagents_system.data.sample_reader import SampleReader
from tfagents_system.services.replay import EXPERIENCE_TABLE
from tfagents_system.services.replay_limits import ReplayLimits

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

# The goal -1 is never achieved: achieved is the env step of the process.
GOALS = """
    her_copies = 2
    num_iter = 1000000
    eval_period_itrs = 100
    n_episodes_in_buffer = 100000

    def env_ctor(self, *args, **kwargs):
        from tf_agents.environments import wrappers

        class Goals(wrappers.PyEnvironmentBaseWrapper):
            def observation_spec(self):
                goal = array_spec.ArraySpec([1], np.float32)
                return {"observation": self._env.observation_spec(), "achieved_goal": goal,
                        "desired_goal": goal}

            def _reset(self):
                return self._with_goals(self._env.reset())

            def _step(self, action):
                return self._with_goals(self._env.step(action))

            def _with_goals(self, time_step):
                achieved, desired = time_step.observation[1:], np.array([-1.0], np.float32)
                reward = np.float32(self.compute_reward(achieved, desired, {}))
                observation = {"observation": time_step.observation, "achieved_goal": achieved,
                               "desired_goal": desired}
                if time_step.is_first():
                    return ts.restart(observation)
                return time_step._replace(observation=observation, reward=reward)

            def compute_reward(self, achieved_goal, desired_goal, info):
                return -np.abs(achieved_goal - desired_goal)[..., 0]

        return Goals(super_env_ctor(self, *args, **kwargs))


super_env_ctor = lambda self, seed=None, worker_id=None: TinyEnv(
    self.env_config["folder"], worker_id
)
"""


class GoalSpecs(py_environment.PyEnvironment):
    """Has the specs of the environment above."""

    def observation_spec(self):
        vector, goal = array_spec.ArraySpec([2], np.float32), array_spec.ArraySpec([1], np.float32)
        return {"observation": vector, "achieved_goal": goal, "desired_goal": goal}

    def action_spec(self):
        return array_spec.BoundedArraySpec([1], np.float32, -1.0, 1.0)

    def _reset(self):
        raise NotImplementedError

    def _step(self, action):
        raise NotImplementedError


@pytest.fixture
def run(tmp_path):
    made = TinyRun(tmp_path, GOALS)
    yield made
    made.end()


def stored(run):
    """Returns how often (life, env step) is stored with its own goal, and with others.

    Checks each reward and goal.
    """
    newest = max(p for p in run.paths.checkpoints.iterdir() if p.name.isdigit())
    layout = ItemLayout(4)  # of a TinyRun
    reader = SampleReader(codec_of(GoalSpecs()), layout)
    unlimited = ReplayLimits(10**6, min_size=1, samples_per_insert=1.0, error_buffer=1e12)
    root, blocks = run.folder / "reader", {}
    shutil.rmtree(root, ignore_errors=True)
    with serving(root, unlimited, newest / "replay") as replay:
        client = replay.client()
        size = client.server_info(timeout=5)[EXPERIENCE_TABLE].current_size
        while len(blocks) < size:
            for sample in client.sample(EXPERIENCE_TABLE, 5 * size, emit_timesteps=False):
                blocks[sample.info.key] = samples_of(reader, sample.data)
    originals, copies = collections.Counter(), collections.Counter()
    for block in blocks.values():
        after = block.next_observation
        rows = zip(after["observation"].astype(np.float64), after["achieved_goal"][:, 0],
                   after["desired_goal"][:, 0], block.observation["desired_goal"][:, 0],
                   block.reward, strict=True)  # fmt: skip
        for (life, step), achieved, desired, desired_before, reward in rows:
            key = round(life * 1e7), round(step * 1e5)
            assert desired == desired_before and reward == -abs(achieved - desired)
            if desired == -1.0:
                originals[key] += 1
                continue
            copies[key] += 1
            end_of_episode = -(-key[1] // HORIZON) * HORIZON
            assert key[1] <= round(float(desired) * 1e5) <= end_of_episode
    return originals, copies


def test_after_kills_each_env_step_and_each_copy_is_stored_once(run):
    run.set_pace(0.005)
    process = run.start()
    for program in ("sac_collect.py 0", "sac_replay_buffer.py", "sac_collect.py 0"):
        newest = run.generations()[:1]
        run.wait_for(lambda n=newest: len(run.generations()) > 1 and run.generations()[:1] != n,
                     180, "two generations, a new one")  # fmt: skip
        before = env_steps(run, "worker_0")
        run.kill(program)
        run.wait_for(lambda b=before: env_steps(run, "worker_0") > b + 20, 120, "more env steps")
    for _ in range(2):
        newest = run.generations()[:1]
        run.wait_for(lambda n=newest: run.generations()[:1] != n, 120, "one more generation")
    os.kill(process.pid, signal.SIGTERM)
    assert run.await_end(process, timeout_secs=120) == 143
    originals, copies = stored(run)
    assert max(originals.values()) == 1
    assert max(copies.values()) == 2
    lives = lives_of(run)
    assert len(lives) == 3
    for life, num_steps in lives.items():
        # The last burst of a life, and the copies of its last episode, are not sent.
        complete = range(1, num_steps + 1 - BURST - HORIZON)
        assert [originals[life, step] for step in complete] == [1] * len(complete)
        assert [copies[life, step] for step in complete] == [2] * len(complete)
    assert sum(copies.values()) > 300
