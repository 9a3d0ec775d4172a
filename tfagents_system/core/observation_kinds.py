"""Observations that are lists of entities or signals of goals.

A word after a dot in the name of the spec tells, such as "blocks.entities", because of a spec only
shape, dtype, bounds and name pass through TF-Agents.
"""

from typing import Any

ENTITIES = "entities"
GOAL = "goal_signal"


def is_entities(spec: Any) -> bool:
    """Returns whether arrays of `spec` are lists [most entities, features] of any length.

    Rows of zeros are absent.
    """
    return _has_mark(spec, ENTITIES)


def is_goal(spec: Any) -> bool:
    """Returns whether arrays of `spec` tell what is to be achieved."""
    return _has_mark(spec, GOAL)


def marked(name: str | None, mark: str) -> str:
    """Returns the name of a spec with the mark ENTITIES or GOAL; `name` is its own."""
    words = (name or "observation").split(".")
    return ".".join(words if mark in words[1:] else [*words, mark])


def unmarked(name: str, mark: str) -> str:
    """Returns the name of a spec without the mark."""
    first, *words = name.split(".")
    return ".".join([first, *(word for word in words if word != mark)])


def _has_mark(spec: Any, mark: str) -> bool:
    return mark in (spec.name or "").split(".")[1:]
