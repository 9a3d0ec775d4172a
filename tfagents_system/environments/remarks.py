"""Finds facts about an environment that a user should know before training."""

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tree

from tfagents_system.data import images
from tfagents_system.environments import spaces
from tfagents_system.environments.adapter import EnvironmentAdapter
from tfagents_system.environments.declared_kinds import array_name
from tfagents_system.environments.layers import every_layer, py_layers

# Attributes and classes of running means, in gym, gymnasium and similar libraries.
_ATTRIBUTE = re.compile(r"(^|_)(rms|mean_?std)$|running_?(mean|std|var|stat|norm)", re.IGNORECASE)
_CLASS = re.compile(r"Running(Mean|Std|Var|Stat|Norm)|MeanStd$|Welford")

LARGEST_COLOR = 10  # of other types than uint8; most are within -1 and 1
NO_BOUND = 1e6  # larger bounds mean that there is none


class Remark(NamedTuple):
    """A remark on an environment."""

    what: str  # a row of `sac check`
    shown: str  # a few words, for the status line
    text: str  # a sentence
    advice: str

    def __str__(self) -> str:
        """Returns the remark for a log."""
        return f"{self.text} {self.advice}"


def remarks_on(environment: Any, takes_vectors: bool) -> list[Remark]:
    """Returns remarks on an environment before training.

    Args:
      environment: Environment with all wrappers.
      takes_vectors: Whether everything except images is flattened, because there is no combiner.
    """
    learned = learned_state(environment)
    remarks = [remark for remark in (learned, texts_left_out(environment)) if remark]
    return remarks + (list(_doubtful_images(environment)) if takes_vectors else [])


def learned_state(environment: Any) -> Remark | None:
    """Returns a remark on the wrappers of an environment that learn statistics.

    Checkpoints do not have these statistics, so a new environment has different ones.
    """
    names = [
        f"{type(layer).__name__}.{name}"
        for layer in every_layer(environment)
        for name, value in getattr(layer, "__dict__", {}).items()
        if not isinstance(value, bool)
        and (_ATTRIBUTE.search(name) or _CLASS.search(type(value).__name__))
    ]
    if not names:
        return None
    found = ", ".join(dict.fromkeys(names))
    return Remark(
        "learned state",
        f"THE ENVIRONMENT LEARNS: {found}",
        f"The environment learns statistics while it runs ({found}): each worker its own, and no "
        "checkpoint and no exported policy has them, so that a resumed run, sac eval and exports "
        "see other observations or rewards than training.",
        "Instead of the wrapper set normalize_observations = True or normalize_rewards = True in "
        "TrainParams.",
    )


def texts_left_out(environment: Any) -> Remark | None:
    """Returns a remark on the texts in observations, which policies do not see."""
    names = [
        name
        for layer in py_layers(environment)
        if isinstance(layer, EnvironmentAdapter)
        for name in spaces.texts_in(layer.gym.observation_space)
    ]
    if not names:
        return None
    found = ", ".join(names)
    return Remark(
        "texts",
        f"TEXT LEFT OUT: {found}",
        f"{found}: a text has no numbers, and is left out of the observation, so that no policy "
        "sees it.",
        "If the task cannot be done without it, turn it into numbers in a wrapper: --wrap, or "
        "env_ctor of TrainParams.",
    )


def _doubtful_images(environment: Any) -> Iterator[Remark]:
    for path, spec in tree.flatten_with_path(environment.observation_spec()):
        name = array_name(path)
        shown = f"{'/'.join(map(str, ('observation', *path)))}, {shape_of(spec)}"
        if images.looks_like_image(spec):
            layout = images.layout_of_shape(spec.shape)
            yield Remark(
                "images",
                f"IMAGE TAKEN FOR A VECTOR? {shown}",
                f"{shown} is taken for a vector of {math.prod(spec.shape):,} numbers.",
                f"If it is an image, set image_layouts = {{{name!r}: {layout!r}}}; if it is none, "
                f"{{{name!r}: {images.VECTOR!r}}}: docs/environments.md#images.",
            )
        elif images.looks_like_stack(spec):
            yield Remark(
                "images",
                f"IMAGES TAKEN FOR A VECTOR? {shown}",
                f"{shown} is taken for a vector of {math.prod(spec.shape):,} numbers.",
                f"If it is {spec.shape[0]} frames of a wrapper, leave that out and set frame_stack "
                f"= {spec.shape[0]} in TrainParams; if it is a vector, set image_layouts = "
                f"{{{name!r}: {images.VECTOR!r}}}: docs/environments.md#images.",
            )
        elif images.is_image(spec) and spec.dtype.kind == "u" and _is_of_booleans(spec):
            yield Remark(
                "images",
                f"IMAGE OF ZEROS AND ONES: {shown}",
                f"{shown} is an image whose largest number is 1, such as of booleans: networks "
                "divide images of uint8 by 255, so that its numbers almost vanish.",
                "Return it as float32, in a wrapper or in env_ctor of TrainParams.",
            )
        elif images.is_image(spec) and spec.dtype != np.uint8 and _has_large_bound(spec):
            yield Remark(
                "images",
                f"IMAGE OF LARGE NUMBERS: {shown}",
                f"{shown} is an image whose values networks take as they are, because it is not of "
                f"uint8; the bounds of its spec are beyond {LARGEST_COLOR}.",
                "If its colors are from 0 to 255, give it as uint8, or return "
                "as_images.AsImages(environment) in env_ctor: docs/environments.md#images.",
            )


def shape_of(spec: Any) -> str:
    """Returns dtype and shape of an array, in words."""
    return f"{np.dtype(spec.dtype)} {list(spec.shape)}"


def _is_of_booleans(spec: Any) -> bool:
    return bool(np.max(getattr(spec, "maximum", 255)) <= 1)


def _has_large_bound(spec: Any) -> bool:
    """Returns whether the spec has an upper bound, and it is above LARGEST_COLOR."""
    bound = np.max(getattr(spec, "maximum", 0.0))
    return bool(LARGEST_COLOR < bound < NO_BOUND)
