"""Keeps the policy with the best evaluation of a run in `policies/best`.

Each folder there is a policy checkpoint with its `best.json`. Programs of several hosts may find a
best policy at the same time: each adds its folder atomically, and removes worse policies' folders.
So the best policy never disappears, and no lock is needed.
"""

import json
import math
import pathlib
import shutil
from typing import Any, NamedTuple

from tfagents_system.core.state.files import read_json, rename_durably
from tfagents_system.core.state.paths import ExperimentPaths

FACTS = "best.json"


class EvaluatedPolicy(NamedTuple):
    """A policy checkpoint, and the returns of its evaluation's episodes."""

    folder: pathlib.Path
    iteration: int
    train_step: int
    mean_return: float
    num_episodes: int

    def facts(self) -> dict[str, Any]:
        """Returns the content of `best.json`."""
        return {name: value for name, value in self._asdict().items() if name != "folder"}


def best_policy(paths: ExperimentPaths) -> EvaluatedPolicy | None:
    """Returns the best policy, the earliest of equals; None if no evaluation is complete yet."""
    found = sorted(_policies(paths), key=_rank)
    return found[-1] if found else None


def add_best_policy(
    paths: ExperimentPaths, unfinished: pathlib.Path, policy: EvaluatedPolicy
) -> None:
    """Makes `unfinished` the folder of `policy`, and removes the folders of worse policies."""
    (unfinished / FACTS).write_text(json.dumps(policy.facts(), indent=2) + "\n")
    try:
        rename_durably(unfinished, policy.folder)
    except OSError:
        if not policy.folder.exists():
            raise
        shutil.rmtree(unfinished, ignore_errors=True)  # another program was faster
    best = best_policy(paths)
    for other in _policies(paths):
        if best is not None and _rank(other) < _rank(best):
            shutil.rmtree(other.folder, ignore_errors=True)


def _rank(policy: EvaluatedPolicy) -> tuple[float, int]:
    return policy.mean_return, -policy.train_step


def _policies(paths: ExperimentPaths) -> list[EvaluatedPolicy]:
    found = []
    for path in paths.best_policies.glob(f"[!.]*/{FACTS}"):
        try:
            policy = EvaluatedPolicy(path.parent, **read_json(path))
            if math.isfinite(policy.mean_return) and policy.train_step >= 0:
                found.append(policy)
        except (OSError, ValueError, TypeError):
            continue  # just removed, or damaged
    return found
