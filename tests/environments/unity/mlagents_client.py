"""Plays a stand-in for a Unity build by ML-Agents' own UnityEnvironment; prints what it sees.

Usage: mlagents_client.py STAND_IN PORT TASKS NUM_STEPS PACKAGE. Needs `mlagents_envs`.

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


def main(stand_in, port, tasks, num_steps, package):
    """Steps all agents with the first allowed action."""
    np.bool = bool  # which 0.28 uses, and NumPy has no more
    sys.meta_path.insert(0, Messages())
    from mlagents_envs.base_env import ActionTuple
    from mlagents_envs.environment import UnityEnvironment
    from mlagents_envs.side_channel.stats_side_channel import StatsSideChannel

    stats = StatsSideChannel()
    env = UnityEnvironment(
        stand_in, base_port=int(port), seed=3, no_graphics=True, timeout_wait=60,
        side_channels=[stats],
        additional_args=["--task", tasks, "--agents", "3", "--package", package],
    )  # fmt: skip
    for _ in range(2):  # as our client, which needs the first to learn the behaviors
        env.reset()
    seen = {name: {"shapes": [list(sensor.shape) for sensor in spec.observation_specs],
                   "continuous": spec.action_spec.continuous_size,
                   "branches": list(spec.action_spec.discrete_branches),
                   "asked": 0, "ended": 0, "reward": 0.0}
            for name, spec in env.behavior_specs.items()}  # fmt: skip
    for _ in range(int(num_steps)):
        for name, spec in env.behavior_specs.items():
            asking, ended = env.get_steps(name)
            seen[name]["asked"] += len(asking)
            seen[name]["ended"] += len(ended)
            seen[name]["reward"] += float(asking.reward.sum() + ended.reward.sum())
            sizes = spec.action_spec
            discrete = np.zeros((len(asking), sizes.discrete_size), np.int32)
            for branch in range(sizes.discrete_size):
                discrete[:, branch] = asking.action_mask[branch].argmin(axis=1)
            continuous = np.zeros((len(asking), sizes.continuous_size), np.float32)
            env.set_actions(name, ActionTuple(continuous, discrete))
        env.step()
    statistics = sorted(stats.get_and_reset_stats())
    env.close()
    print(json.dumps({"behaviors": seen, "statistics": statistics}))


if __name__ == "__main__":
    main(*sys.argv[1:])
