"""Writes any policy as a SavedModel or TensorFlow Lite model; neither needs TF-Agents."""

import contextlib
import json
import keyword
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import tensorflow as tf
import tree
from tf_agents.agents import tf_agent
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.leaves import leaves_by_name

INPUTS = "inputs.json"


def write_saved_model(agent: tf_agent.TFAgent, folder: pathlib.Path) -> None:
    """Writes `saved_model/`, and `inputs.json` with the name of its input for each part.

    See `_make_act` for its signature `serving_default`.

    Raises:
      ConfigError: If the policy cannot be exported.
    """
    module = tf.Module()
    module.policy_variables = list(agent.policy.variables())
    act, names = _make_act(agent)
    (folder / INPUTS).write_text(json.dumps(names) + "\n")
    tf.saved_model.save(module, str(folder / "saved_model"), signatures=act)


def write_tflite(agent: tf_agent.TFAgent, folder: pathlib.Path) -> None:
    """Writes `policy.tflite`, with the signature of the SavedModel, and its `inputs.json`.

    Raises:
      ConfigError: If the policy cannot be exported, or needs an op that TensorFlow Lite lacks.
    """
    with tempfile.TemporaryDirectory() as temporary:
        write_saved_model(agent, pathlib.Path(temporary))
        shutil.copy(pathlib.Path(temporary) / INPUTS, folder)
        converter = tf.lite.TFLiteConverter.from_saved_model(f"{temporary}/saved_model")
        try:
            with _quiet():
                model = converter.convert()
        except Exception as error:  # of many types, depending on the op
            reason = str(error).strip().splitlines()[0]
            raise ConfigError(
                f"tflite cannot hold this policy: {reason}. Use savedmodel instead."
            ) from error
    (folder / "policy.tflite").write_bytes(model)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Drops output of TensorFlow's compiled parts on standard error."""
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)


def named_parts(nest: Any, single: str) -> dict[str, Any]:
    """Returns the leaves of an observation or action (or its spec) by their names in a model.

    {"arm": {"angle": x}} has the part "arm_angle"; the name of a single array is `single`.

    Raises:
      ConfigError: If two leaves have the same name.
    """
    leaves = tree.flatten_with_path(nest)
    return leaves_by_name(leaves, lambda path: "_".join(map(str, path)) or single, single)


def free_names(wanted: Mapping[str, str], taken: Collection[str]) -> dict[str, str]:
    """Returns `wanted`, a name for each part, with `observation_` before names that are taken."""
    names: dict[str, str] = {}
    for part, name in wanted.items():
        while name in taken or name in names.values():
            name = f"observation_{name}"
        names[part] = name
    return names


def _plain(part: str) -> str:
    """Returns the part's name as an argument name: TensorFlow would change others by itself."""
    name = re.sub("[^a-z0-9]", "_", part.lower())
    is_plain = name[0].isalpha() and name != "self" and not keyword.iskeyword(name)
    return name if is_plain else f"observation_{name}"


def _make_act(agent: tf_agent.TFAgent) -> tuple[Any, dict[str, str]]:
    """Returns the greedy action as a concrete function without batch axis, and its inputs by part.

    These have the parts' names, in lower case and with underscores for punctuation, and
    `observation_` before one that begins with a digit, or is a state's name or a Python keyword.
    Other inputs are `policy_state_<k>`, zeros at the start of an episode; its outputs are `action`,
    or `action_<leaf>` for a nest, and `next_policy_state_<k>`.
    """
    policy = agent.policy
    prefix = "action_" if tf.nest.is_nested(policy.action_spec) else ""
    initial_state = tf.nest.flatten(policy.get_initial_state(batch_size=1))
    if any(tf.reduce_any(part != tf.zeros_like(part)) for part in initial_state):
        raise ConfigError("The policy's state begins with other values than zeros.")
    parts = named_parts(policy.time_step_spec.observation, "observation")
    states = {
        f"policy_state_{index}": spec
        for index, spec in enumerate(tf.nest.flatten(policy.policy_state_spec))
    }

    def act(*inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        batched = [value[tf.newaxis] for value in inputs]
        observation = tf.nest.pack_sequence_as(
            policy.time_step_spec.observation, batched[: len(parts)]
        )
        state = tf.nest.pack_sequence_as(policy.policy_state_spec, batched[len(parts) :])
        one = tf.ones([1])
        time_step = ts.TimeStep(tf.constant([ts.StepType.MID]), 0 * one, one, observation)
        step = policy.action(time_step, state)
        outputs = {
            prefix + name: part[0] for name, part in named_parts(step.action, "action").items()
        }
        for name, value in zip(states, tf.nest.flatten(step.state), strict=True):
            outputs[f"next_{name}"] = value[0]
        return outputs

    names = free_names({part: _plain(part) for part in parts}, states)
    specs = {names[part]: spec for part, spec in parts.items()} | states
    inputs = [tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in specs.items()]
    traced = tf.function(act, input_signature=inputs, autograph=False)
    return traced.get_concrete_function(), names
