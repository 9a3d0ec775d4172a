"""Packs versions of the policy for the replay server's tables, and unpacks them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfagents_system.data.codec import Codec


class PolicyVersion(NamedTuple):
    """The policy at a train step."""

    train_step: int
    values: list[NDArray[Any]]  # in the order of `policy.variables()`
    num_tickets: int = 0  # number of tickets handed out; a change means that there are new ones
    is_filmed: bool = False  # in a ticket: whether to film its episode
    lessons: tuple[int, ...] = ()  # of the curriculum's courses, from 0; empty in a ticket


class VersionCodec:
    """Packs a policy's variables into an item's columns, and unpacks them."""

    def __init__(self, variables: Sequence[tf.Variable], num_courses: int = 0):
        """`variables` are read at each `pack`; a version has the lessons of `num_courses`."""
        self._variables = variables
        number = tf.TensorSpec([], tf.int64)
        values = [tf.TensorSpec(v.shape, v.dtype) for v in variables]
        self._codec = Codec((number, number, [number] * num_courses, values))

    @property
    def columns(self) -> Sequence[tf.TensorSpec]:
        """The specs of the packed columns, which are vectors."""
        return self._codec.columns

    def pack(
        self, train_step: int, num_tickets: int = 0, lessons: Sequence[int] = ()
    ) -> list[NDArray[Any]]:
        """Packs the variables' current values into columns."""
        values = [variable.numpy() for variable in self._variables]
        version = PolicyVersion(train_step, values, num_tickets, lessons=tuple(lessons))
        return self.pack_version(version)

    def pack_version(self, version: PolicyVersion) -> list[NDArray[Any]]:
        """Packs `version` into columns."""
        numbers = np.int64(version.train_step), np.int64(version.num_tickets)
        lessons = [np.int64(lesson) for lesson in version.lessons]
        return self._codec.pack((*numbers, lessons, version.values))

    def unpack(self, columns: Sequence[NDArray[Any]]) -> PolicyVersion:
        """Unpacks a version from an item's columns.

        Raises:
          ValueError: If they have other variables.
        """
        arrived = [(column.dtype.name, column.shape) for column in columns]
        expected = [(spec.dtype.name, tuple(spec.shape)) for spec in self.columns]
        if arrived != expected:
            raise ValueError(
                f"The policy that has arrived has other variables than this one: {arrived} instead "
                f"of {expected}. Do the programs of the run have different params?"
            )
        train_step, num_tickets, lessons, values = self._codec.unpack(columns)
        begun = tuple(int(lesson) for lesson in lessons)
        return PolicyVersion(int(train_step), values, int(num_tickets), lessons=begun)
