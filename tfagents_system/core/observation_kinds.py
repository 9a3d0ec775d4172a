"""Marks observations that are lists of entities or goal signals.

The mark is a word after a dot in the spec's name, such as "blocks.entities", because TF-Agents
keeps only the shape, dtype, bounds and name of a spec.
"""

from typing import Any

ENTITIES = "entities"
GOAL = "goal_signal"


def is_entities(spec: Any) -> bool:
    """Returns whether arrays of `spec` are lists [most entities, features] of any length.

    Rows of zeros stand for absent entities.
    """
    return _has_mark(spec, ENTITIES)


def is_goal(spec: Any) -> bool:
    """Returns whether arrays of `spec` describe the goal."""
    return _has_mark(spec, GOAL)


def marked(name: str | None, mark: str) -> str:
    """Returns the name of a spec with the mark ENTITIES or GOAL; `name` is the unmarked name."""
    words = (name or "observation").split(".")
    return ".".join(words if mark in words[1:] else [*words, mark])


def unmarked(name: str, mark: str) -> str:
    """Returns the name of a spec without the mark."""
    first, *words = name.split(".")
    return ".".join([first, *(word for word in words if word != mark)])


def _has_mark(spec: Any, mark: str) -> bool:
    return mark in (spec.name or "").split(".")[1:]
