"""The policy of a checkpoint, written in one of the formats."""

import json
import pathlib
import shutil
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tree
from tf_agents.agents import tf_agent

from tfagents_system.agents.construction import make_agent
from tfagents_system.core.errors import ConfigError
from tfagents_system.evaluation.evaluator import make_eval_environment
from tfagents_system.export.onnx_model import write_onnx
from tfagents_system.export.tensorflow_models import (
    observation_parts,
    write_saved_model,
    write_tflite,
)
from tfagents_system.learning.policy_export import restore_policy
from tfagents_system.policies import recurrent_step
from tfagents_system.policies.acting import TfActingPolicy
from tfagents_system.policies.numpy_actor import NumpyActor, obstacle_to_numpy


class RestoredPolicy(NamedTuple):
    """An agent with the variables of a checkpoint, and one of its actions."""

    agent: tf_agent.TFAgent
    observation: Any  # the first of an episode
    action: np.ndarray


def restore(params: Any, checkpoint: pathlib.Path) -> RestoredPolicy:
    """Builds environment and agent as `params` say, and restores the checkpoint.

    Raises:
      ConfigError: If `params` describes none, or the checkpoint is of another network.
    """
    with make_eval_environment(params, seed=0) as environment:
        agent, _ = make_agent(params, environment)
        restore_policy(checkpoint, agent.collect_policy.variables())
        time_step = environment.reset()
    greedy = TfActingPolicy(agent.policy)
    action, _ = greedy.action(time_step, greedy.initial_state())
    return RestoredPolicy(agent, time_step.observation, action)


def write(policy: RestoredPolicy, name: str, folder: pathlib.Path) -> None:
    """Makes `folder` with the model in the format `name`, its runner and an example.

    Raises:
      ConfigError: If the format cannot hold the policy.
    """
    folder.mkdir()
    WRITERS[name](policy.agent, folder)
    shutil.copy(pathlib.Path(__file__).with_name(f"{name}_runner.py"), folder / "run_policy.py")
    parts = {key: part.tolist() for key, part in observation_parts(policy.observation).items()}
    observation = parts if tree.is_nested(policy.observation) else parts["observation"]
    example = {"observation": observation, "action": policy.action.tolist()}
    (folder / "example.json").write_text(json.dumps(example) + "\n")


def _write_numpy(agent: tf_agent.TFAgent, folder: pathlib.Path) -> None:
    np.savez(folder / "policy.npz", **_arrays(agent, "numpy"))
    shutil.copy(recurrent_step.__file__, folder)


def _write_onnx(agent: tf_agent.TFAgent, folder: pathlib.Path) -> None:
    arrays = _arrays(agent, "onnx")
    (spec,) = tree.flatten(agent.policy.time_step_spec.observation)
    write_onnx(arrays, tuple(spec.shape), folder / "policy.onnx")


def _arrays(agent: tf_agent.TFAgent, name: str) -> dict[str, np.ndarray]:
    num_parts = len(tree.flatten(agent.policy.time_step_spec.observation))
    obstacle = obstacle_to_numpy(agent.collect_policy)
    if obstacle is None and num_parts != 1:
        obstacle = f"its observation has {num_parts} parts"
    if obstacle:
        raise ConfigError(
            f"{name} cannot hold this policy: {obstacle}. Allowed is one of the built-in networks "
            "for a single observation array. Export to savedmodel or tflite instead."
        )
    return NumpyActor(agent.collect_policy).arrays()


WRITERS: Mapping[str, Callable[[tf_agent.TFAgent, pathlib.Path], None]] = {
    "numpy": _write_numpy,
    "onnx": _write_onnx,
    "savedmodel": write_saved_model,
    "tflite": write_tflite,
}
