"""Env steps and their copies with other goals, after programs were killed.

The run also learns from demonstrations, in every way that there is.
"""

import collections
import os
import signal

import numpy as np
import pytest
from faults.experience import BURST, life_and_step, lives_of, stored_blocks
from faults.recovery import kill_in_turn
from system.tiny_run import HORIZON, TinyRun
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec

from tfagents_system.demonstrations.recorder import Recorder

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

# The goal -1 is never achieved: achieved is the env step of the process.
GOALS = """
    her_copies = 2
    demonstrations = "demos"
    demonstration_share = 0.25
    reward_signals = {"extrinsic": {}, "gail": {"strength": 0.1, "use_actions": True}}
    behavioral_cloning = {"strength": 0.5, "steps": 1000}
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


PROGRAMS = ("sac_collect.py 0", "sac_replay_buffer.py", "sac_train.py", "sac_collect.py 0")


@pytest.fixture
def run(tmp_path):
    made = TinyRun(tmp_path, GOALS)
    rng, recorder = np.random.default_rng(1), Recorder(tmp_path / "demos")
    for _ in range(3):
        observations = [
            {"observation": rng.normal(size=2), "achieved_goal": rng.normal(size=1),
             "desired_goal": np.ones(1)} for _ in range(1 + HORIZON)
        ]  # fmt: skip
        recorder.reset(observations[0])
        for step in range(1, 1 + HORIZON):
            recorder.step(rng.uniform(-1, 1, [1]), observations[step], 1.0, False, step == HORIZON)
    yield made
    made.end()


def stored(run):
    """Returns how often (life, env step) is stored with its own goal, and with others.

    Checks each reward and goal.
    """
    originals, copies = collections.Counter(), collections.Counter()
    for block in stored_blocks(run, GoalSpecs()):
        after = block.next_observation
        rows = zip(after["observation"], after["achieved_goal"][:, 0],
                   after["desired_goal"][:, 0], block.observation["desired_goal"][:, 0],
                   block.reward, strict=True)  # fmt: skip
        for vector, achieved, desired, desired_before, reward in rows:
            key = life_and_step(vector)
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
    kill_in_turn(run, PROGRAMS, num_steps=20)
    for _ in range(2):
        newest = run.generations()[:1]
        run.wait_for(lambda n=newest: run.generations()[:1] != n, 120, "one more generation")
    os.kill(process.pid, signal.SIGTERM)
    assert run.await_end(process, timeout_secs=120) == 143
    assert len(run.restored_steps()) == 1  # by the learner that followed the one that was killed
    log = run.paths.stdout("learner").read_text()
    assert "Demonstrations: 3 episodes, 30 env steps, 25% of each minibatch." in log
    assert "Traceback" not in log
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
