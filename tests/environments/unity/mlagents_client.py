"""Steps a stand-in for a Unity build by ML-Agents' own UnityEnvironment; prints what it sees.

Usage: mlagents_client.py STAND_IN PORT TASK NUM_STEPS PACKAGE. Needs `mlagents_envs`.

Its generated messages build descriptors by hand, which protobuf refuses since 4.0. They contain
each file's serialized descriptor, too, from which protobuf's builder makes the same classes.
"""

import ast
import importlib
import importlib.abc
import importlib.util
import json
import pathlib
import sys

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.internal import builder

from tfagents_system.environments.unity.base_env_agents import BaseEnvAgents

MESSAGES = "mlagents_envs.communicator_objects."


class Messages(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the modules of messages."""

    def find_spec(self, fullname, path, target=None):
        """Finds the modules of messages alone."""
        if not (fullname.startswith(MESSAGES) and fullname.endswith("_pb2")):
            return None
        file = pathlib.Path(path[0], fullname.removeprefix(MESSAGES) + ".py")
        return importlib.util.spec_from_file_location(fullname, file, loader=self)

    def exec_module(self, module):
        """Makes the classes of a module."""
        code = ast.parse(pathlib.Path(module.__spec__.origin).read_text())
        (value,) = (node.value for node in ast.walk(code)
                    if isinstance(node, ast.keyword) and node.arg == "serialized_pb")  # fmt: skip
        constant = value.args[0] if isinstance(value, ast.Call) else value  # _b("...")
        data = constant.value
        data = data.encode("latin1") if isinstance(data, str) else data
        for needed in descriptor_pb2.FileDescriptorProto.FromString(data).dependency:
            name = needed.removesuffix(".proto").replace("/", ".") + "_pb2"
            importlib.import_module(name)
        file = descriptor_pool.Default().AddSerializedFile(data)
        builder.BuildMessageAndEnumDescriptors(file, vars(module))
        builder.BuildTopDescriptorsAndMessages(file, module.__name__, vars(module))


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
    np.bool = bool  # which 0.28 uses, and NumPy has no more
    sys.meta_path.insert(0, Messages())
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
