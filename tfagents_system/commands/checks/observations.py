"""The probes of `sac check` for how networks read the arrays of an observation."""

import collections
from typing import Any

import numpy as np
import tree

from tfagents_system.agents.agent_settings import AgentSettings
from tfagents_system.commands.checks.rows import Row
from tfagents_system.core.observation_kinds import is_entities, is_goal
from tfagents_system.core.settings.hyperparameters import hyperparameters
from tfagents_system.core.settings.params import Params
from tfagents_system.data.images import is_image, layout_of, size_of
from tfagents_system.environments.declared_kinds import array_name
from tfagents_system.environments.remarks import shape_of
from tfagents_system.networks.entity_encoder import LEAST_SQUARES
from tfagents_system.networks.image_encoders import encoder_kind

LARGEST_SHIFT = 0.25  # of the side of an image
MOST_GOAL_WEIGHTS = 3_000_000  # that generate the layer of a network; 128^3 are ML-Agents' default


def check_observations(observation_spec: Any, params: Params) -> list[Row]:
    """Returns rows that tell which arrays of an observation are images, and which are goals."""
    images = check_images(observation_spec, params)
    return images + check_goal_conditioning(observation_spec, params)


def check_images(observation_spec: Any, params: Params) -> list[Row]:
    """Returns rows on the images of an observation, their layouts and their encoders."""
    shown, sides = [], []
    for path, spec in tree.flatten_with_path(observation_spec):
        if is_image(spec):
            encoder = ""
            if params.preprocessing_combiner is None:
                encoder = f", {encoder_kind(spec, params.image_encoder)}"
            axes = f"{shape_of(spec)} is {layout_of(spec)}{encoder}"
            shown.append(f"{array_name(path)} {axes}")
            sides.append(min(size_of(spec)[:2]))
    if not shown:
        return _check_unused(params)
    rows = [Row("images", "ok", "; ".join(shown))]
    largest = params.image_augmentation
    if largest > min(sides) * LARGEST_SHIFT:
        value = (f"image_augmentation is {largest}, and an image has a side of {min(sides)}: "
                 "shifts move much of what it shows out of it")  # fmt: skip
        advice = ("Set a smaller one, or 0 if places in the image matter, as on a board. "
                  "4 is usual for 84 x 84.")  # fmt: skip
        rows.append(Row("images", "note", value, advice))
    return rows


def _check_unused(params: Params) -> list[Row]:
    """Returns rows on settings of images that have no effect, because there are no images."""
    declared = hyperparameters(AgentSettings)
    given = {name: getattr(params, name) for name in ("image_encoder", "image_augmentation")}
    found = [
        f"{name} is {value!r}" for name, value in given.items() if value != declared[name].default
    ]
    if not found:
        return []
    value = f"{', '.join(found)}, without effect: no array of the observation is an image"
    advice = "If one is, say which by image_layouts: docs/environments.md#images."
    return [Row("images", "note", value, advice)]


def check_goal_conditioning(observation_spec: Any, params: Params) -> list[Row]:
    """Returns rows on the goals that condition networks, and their cost."""
    found = tree.flatten_with_path(observation_spec)
    goals = [f"{array_name(path)} {shape_of(spec)}" for path, spec in found if is_goal(spec)]
    if not goals:
        return []
    sizes = params.actor_fc_layer_params, params.critic_joint_fc_layer_params
    num_inputs = [units[-2] if len(units) > 1 else 0 for units in sizes]
    num_weights = [n * units[-1] ** 2 for n, units in zip(num_inputs, sizes, strict=True)]
    value = (f"{', '.join(goals)}: the last hidden layer is generated from them, by "
             f"{num_weights[0] / 1e6:.1f} million weights in the actor and "
             f"{num_weights[1] / 1e6:.1f} in each critic")  # fmt: skip
    if max(num_weights) <= MOST_GOAL_WEIGHTS:
        return [Row("goal signals", "ok", value)]
    advice = ("Train steps take long. Set smaller actor_fc_layer_params and "
              "critic_joint_fc_layer_params, such as (64, 64), or goal_conditioning_type = "
              "'none'.")  # fmt: skip
    return [Row("goal signals", "note", value, advice)]


class EntityCounter:
    """Counts the entities of observations that are present, and those taken for absent."""

    def __init__(self, observation_spec: Any):
        """Takes the spec of an observation."""
        self._specs = {
            array_name(path): spec for path, spec in tree.flatten_with_path(observation_spec)
        }
        self._counts: dict[str, set[int]] = collections.defaultdict(set)  # present, by list
        self._num_small: collections.Counter[str] = collections.Counter()  # env steps, by list

    def count(self, observation: Any) -> None:
        """Looks at an observation."""
        for (name, spec), leaf in zip(self._specs.items(), tree.flatten(observation), strict=True):
            if is_entities(spec):
                squares = np.square(np.asarray(leaf, np.float32)).sum(axis=1)
                is_present = squares >= np.float32(LEAST_SQUARES)
                self._counts[name].add(int(is_present.sum()))
                self._num_small[name] += bool((~is_present & (squares > 0)).any())

    def rows(self) -> list[Row]:
        """Returns how many entities there were, and a note if some were too small to be seen."""
        if not self._counts:
            return []
        shown = [
            f"{name} {shape_of(self._specs[name])} had {min(counts)} to {max(counts)} of at most "
            f"{self._specs[name].shape[0]}"
            for name, counts in self._counts.items()
        ]
        rows = [Row("entities", "ok", "; ".join(shown))]
        for name, num_steps in (+self._num_small).items():
            value = (f"{name} had rows in {num_steps:,} steps that are not zeros, but taken for "
                     f"absent: the sum of their squares is below {LEAST_SQUARES}")  # fmt: skip
            advice = ("Give each entity a feature that is 1, or larger numbers: "
                      "docs/environments.md#lists-of-entities.")  # fmt: skip
            rows.append(Row("entities", "note", value, advice))
        return rows
