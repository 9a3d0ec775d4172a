"""Restores the policy of a checkpoint and writes it in one of the formats."""

import json
import pathlib
import shutil
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tree
from tf_agents.agents import tf_agent

from tfagents_system.agents.construction import make_agent
from tfagents_system.core.action_masks import input_spec
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.leaves import only
from tfagents_system.core.settings.params import Params
from tfagents_system.environments import own_arrays
from tfagents_system.environments.closing import closed_at_end
from tfagents_system.environments.remarks import learned_state
from tfagents_system.evaluation.evaluator import make_eval_environment
from tfagents_system.export.onnx_model import write_onnx
from tfagents_system.export.tensorflow_models import (
    named_parts,
    write_saved_model,
    write_tflite,
)
from tfagents_system.export.unity_model import write_unity
from tfagents_system.learning.policy_export import restore_policy
from tfagents_system.policies import numpy_encoders, numpy_layers
from tfagents_system.policies.acting import TfActingPolicy
from tfagents_system.policies.numpy_actor import NumpyActor, obstacle_to_numpy


class RestoredPolicy(NamedTuple):
    """An agent with a checkpoint's variables, and one of its actions as an example."""

    agent: tf_agent.TFAgent
    observation: Any  # what it sees of the first observation of an episode
    action: Any
    note: str | None = None  # parts of the environment that are not exported


def restore(params: Params, checkpoint: pathlib.Path) -> RestoredPolicy:
    """Builds the environment and agent of `params`, and restores the checkpoint.

    Raises:
      ConfigError: If `params` makes neither, the checkpoint is of another network, or the first
        observation is not finite.
    """
    with closed_at_end(make_eval_environment(params, seed=0)) as environment:
        agent, _ = make_agent(params, environment)
        restore_policy(checkpoint, agent.collect_policy.variables())
        time_step = own_arrays.reset(environment)
        learned = learned_state(environment)
    own_arrays.check_finite(time_step.observation, "observation", 0)
    greedy = TfActingPolicy(agent.policy)
    action, _ = greedy.action(time_step, greedy.initial_state())
    note = str(learned) if learned else None
    seen = only(time_step.observation, agent.policy.time_step_spec.observation)
    return RestoredPolicy(agent, seen, action, note)


RUNNER, EXAMPLE = OF_EACH = "run_policy.py", "example.json"


def write(policy: RestoredPolicy, name: str, folder: pathlib.Path) -> None:
    """Writes the model in the format `name`, its runner and an example to a new `folder`.

    Raises:
      ConfigError: If the format does not support the policy.
    """
    folder.mkdir()
    WRITERS[name](policy.agent, folder)
    shutil.copy(pathlib.Path(__file__).with_name(f"{name}_runner.py"), folder / RUNNER)
    example: dict[str, Any] = {}
    for key, nest in (("observation", policy.observation), ("action", policy.action)):
        parts = {name: part.tolist() for name, part in named_parts(nest, key).items()}
        example[key] = parts if tree.is_nested(nest) else parts[key]
    observed = named_parts(policy.observation, "observation")
    example["dtypes"] = {name: part.dtype.name for name, part in observed.items()}
    (folder / EXAMPLE).write_text(json.dumps(example) + "\n")


def _write_numpy(agent: tf_agent.TFAgent, folder: pathlib.Path) -> None:
    parts = list(_vector_parts(agent, "numpy"))
    actor = NumpyActor(agent.collect_policy)
    arrays = actor.arrays() | {"is_masked": np.array(actor.is_masked)}
    np.savez(folder / "policy.npz", parts=parts, **arrays)
    shutil.copy(numpy_encoders.__file__, folder)
    shutil.copy(numpy_layers.__file__, folder)


def _write_onnx(agent: tf_agent.TFAgent, folder: pathlib.Path) -> None:
    parts = _vector_parts(agent, "onnx")
    actor = NumpyActor(agent.collect_policy)
    write_onnx(actor.arrays(), parts, actor.is_masked, folder / "policy.onnx")


def _write_unity(agent: tf_agent.TFAgent, folder: pathlib.Path) -> None:
    joined = list(_vector_parts(agent, "unity"))
    leaves = tree.flatten(agent.policy.action_spec)
    every = input_spec(agent.time_step_spec.observation, leaves)
    actor = NumpyActor(agent.collect_policy)
    write_unity(actor.arrays(), joined, every, folder / "policy.onnx")


def _vector_parts(agent: tf_agent.TFAgent, name: str) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of an observation's parts, in the order in which the actor joins them."""
    obstacle = obstacle_to_numpy(agent.collect_policy)
    if obstacle:
        raise ConfigError(
            f"{name} cannot hold this policy: {obstacle}. Expected one of the built-in networks. "
            "Export to savedmodel or tflite instead."
        )
    leaves = tree.flatten(agent.policy.action_spec)
    parts = named_parts(input_spec(agent.policy.time_step_spec.observation, leaves), "observation")
    return {part: tuple(spec.shape) for part, spec in parts.items()}


WRITERS: Mapping[str, Callable[[tf_agent.TFAgent, pathlib.Path], None]] = {
    "numpy": _write_numpy,
    "onnx": _write_onnx,
    "savedmodel": write_saved_model,
    "tflite": write_tflite,
    "unity": _write_unity,
}
