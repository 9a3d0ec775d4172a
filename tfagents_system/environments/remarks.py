"""Finds what a user should know of an environment before training."""

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tree

from tfagents_system.data.frames import looks_like_image
from tfagents_system.environments.layers import every_layer

# Attributes and classes of running means, in gym, gymnasium and similar libraries.
_ATTRIBUTE = re.compile(r"(^|_)(rms|mean_?std)$|running_?(mean|std|var|stat|norm)", re.IGNORECASE)
_CLASS = re.compile(r"Running(Mean|Std|Var|Stat|Norm)|MeanStd$|Welford")


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
    remarks = [learned] if learned else []
    return remarks + (list(_flattened_images(environment)) if takes_vectors else [])


def learned_state(environment: Any) -> Remark | None:
    """Returns the wrappers of an environment that learn statistics.

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


def _flattened_images(environment: Any) -> Iterator[Remark]:
    for path, spec in tree.flatten_with_path(environment.observation_spec()):
        if looks_like_image(spec):
            name = "/".join(map(str, ("observation", *path)))
            shown = f"{name}, {np.dtype(spec.dtype)} {list(spec.shape)}"
            yield Remark(
                "images",
                f"IMAGE TAKEN FOR A VECTOR? {shown}",
                f"{shown} is taken for a vector of {math.prod(spec.shape):,} numbers: an image is "
                "uint8 [height, width, channels].",
                "If it is one, return as_images.AsImages(environment) in env_ctor: "
                "docs/environments.md#images.",
            )
