"""Steps a stand-in for a Unity build by ML-Agents' own UnityEnvironment; prints what it sees.

Usage: mlagents_client.py STAND_IN PORT TASK NUM_STEPS PACKAGE. Needs `mlagents_envs`.
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[3]))  # it is started by its path

from benchmarks.peers import mlagents_messages
from tfagents_system.environments.unity.base_env_agents import BaseEnvAgents


def seen_by(agents, num_steps):
    """Steps agents that stand still; returns the shapes of sensors, and what came of the agents."""
    steps = agents.reset()
    num_asked, num_ended, reward = 0, 0, 0.0
    for _ in range(num_steps):
        num_asked += len(steps.asking)
        num_ended += len(steps.ended)
        reward += sum(float(s.reward) for s in [*steps.asking.values(), *steps.ended.values()])
        actions = {each: agents.idle_action(step.observation)
                   for each, step in steps.asking.items()}  # fmt: skip
        steps = agents.step(actions)
    shapes = [[sensor.name, *sensor.shape] for sensor in agents.behavior.sensors]
    return [shapes, num_asked, num_ended, round(reward, 3)]


def main(stand_in, port, task, num_steps, package):
    """Prints what `seen_by` returns."""
    mlagents_messages.prepare()
    from mlagents_envs.environment import UnityEnvironment

    env = UnityEnvironment(
        stand_in, base_port=int(port), seed=3, no_graphics=True, timeout_wait=60,
        additional_args=["--task", task, "--agents", "3", "--package", package],
    )  # fmt: skip
    seen = seen_by(BaseEnvAgents(env), int(num_steps))
    env.close()
    print(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
