"""A part of the process's state that user code may change."""

from collections.abc import Callable
from typing import Any, NamedTuple


class StateItem(NamedTuple):
    """One part of the process's state."""

    name: str  # for messages
    read: Callable[[], Any]
    write: Callable[[Any], object]
    is_lent: bool = False  # user code keeps its own value between visits
    is_steady: bool = True  # our programs never change it themselves
    required: Any = None  # the value that our programs need; None: that at their start
