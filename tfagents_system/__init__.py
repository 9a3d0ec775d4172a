"""Distributed multi-process Soft Actor-Critic on TF-Agents and Reverb."""

import contextlib
import importlib
import os
from typing import Any

from tfagents_system.core.process import process_start

process_start.prepare()

# TensorFlow 2.15 wraps dicts with wrapt. Its C extension hides their __dict__ from Python, so that
# typing-extensions >= 4.6, which most packages that users add need, fails in a tf.function ("this
# __dict__ descriptor does not support '_DictWrapper' objects"). wrapt reads this variable when
# TensorFlow is first imported, in this process or in one that it starts.
os.environ.setdefault("WRAPT_DISABLE_EXTENSIONS", "1")

# gym 0.23, which TF-Agents imports, fails if any installed package has broken metadata.
from tfagents_system.core.installed import tolerate_broken_plugins  # noqa: E402

tolerate_broken_plugins()

# It also prints a notice about its successor into every program's log; the adapters support both.
with contextlib.suppress(ImportError):
    importlib.import_module("gym_notices.notices").notices.clear()

_FROM_PYTHON = ("train", "load_policy", "Experiment", "ConfigError", "TrainingError")


def __getattr__(name: str) -> Any:
    """Imports what notebooks use when they use it, because programs need none of it."""
    if name not in _FROM_PYTHON:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("tfagents_system.interactive"), name)
