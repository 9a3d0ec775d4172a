"""The measured tasks, and their trainer configurations of ML-Agents.

Those of the small tasks are of ML-Agents' own tests, those of the builds of its examples, which
train for longer.
"""

import pathlib
from typing import Any, NamedTuple

from benchmarks.ours.simple_budgets import IMITATED, budget_of
from tfagents_system.tasks.simple import TASKS

SIMPLE = "Simple"  # the behavior of the small tasks
SMALL_RATE = {"learning_rate": 3e-4}


class Criterion(NamedTuple):
    """A bound that the mean of the returns of the last training episodes must exceed."""

    threshold: float
    num_episodes: int = 5


class Build(NamedTuple):
    """A task of the stand-in for a Unity build, with settings of ML-Agents' example."""

    behavior: str
    criterion: Criterion
    horizon: int  # env steps per episode, at most
    section: dict[str, Any]
    num_agents: int = 12


BUILDS = {
    "ball": Build(
        "3DBall", Criterion(90.0, 12), 1000,
        {
            "trainer_type": "sac",
            "hyperparameters": {
                "learning_rate": 3e-4, "batch_size": 64, "buffer_size": 200_000,
                "buffer_init_steps": 0, "tau": 0.005, "steps_per_update": 10.0,
                "init_entcoef": 0.5,
            },
            "network_settings": {"normalize": True, "hidden_units": 64, "num_layers": 2},
            "max_steps": 120_000,
            "time_horizon": 1000,
        },
    ),
    "grid": Build(
        "GridWorld", Criterion(0.8, 50), 100,
        {
            "trainer_type": "sac",
            "hyperparameters": {
                "learning_rate": 3e-4, "batch_size": 128, "buffer_size": 50_000,
                "buffer_init_steps": 1000, "tau": 0.005, "steps_per_update": 10.0,
                "init_entcoef": 0.5,
            },
            "network_settings": {
                "hidden_units": 128, "num_layers": 1, "vis_encode_type": "simple",
            },
            "reward_signals": {"extrinsic": {"gamma": 0.9, "strength": 1.0}},
            "max_steps": 30_000,
            "time_horizon": 5,
        },
    ),
}  # fmt: skip


def criterion_of(task: str) -> Criterion:
    """Returns the criterion of a task of TASKS, IMITATED or BUILDS."""
    return BUILDS[task].criterion if task in BUILDS else Criterion(budget_of(task).threshold)


def configuration_of(task: str, demonstrations: pathlib.Path | None = None) -> dict[str, Any]:
    """Returns the content of a trainer configuration for a task of TASKS, IMITATED or BUILDS.

    Args:
      task: Its name.
      demonstrations: The .demo file for a task of IMITATED.
    """
    if task in BUILDS:
        return {"behaviors": {BUILDS[task].behavior: BUILDS[task].section}}
    section = _simple_section(IMITATED.get(task, task))
    if task in IMITATED:
        gail = {"encoding_size": 32, "demo_path": str(demonstrations)}
        section["reward_signals"] = {"gail": gail}
        section["behavioral_cloning"] = {"demo_path": str(demonstrations), "steps": 1000}
        section["max_steps"] = budget_of(task).env_steps
    return {"behaviors": {SIMPLE: section}}


def _simple_section(task: str) -> dict[str, Any]:
    arguments = TASKS[task]
    is_hybrid = arguments.get("num_discrete") and arguments.get("num_continuous", 1)
    hyperparameters = {
        "learning_rate": 5e-3, "batch_size": 8, "buffer_size": 5000, "buffer_init_steps": 100,
        "tau": 0.01, "init_entcoef": 0.01,
    }  # fmt: skip
    network: dict[str, Any] = {"num_layers": 1, "hidden_units": 16}
    env_steps = budget_of(task).env_steps
    if arguments.get("must_remember"):
        own = {"batch_size": 256, "buffer_init_steps": 1000, "steps_per_update": 2}
        hyperparameters |= SMALL_RATE | own
        network["memory"] = {"memory_size": 16, "sequence_length": 16}
    elif arguments.get("num_cameras"):
        hyperparameters |= SMALL_RATE | {"batch_size": 128 if is_hybrid else 16}
        encoder, _, _ = task.rpartition(" ")
        if encoder in ENCODERS:
            hyperparameters["buffer_init_steps"] = 0
            network["vis_encode_type"] = ENCODERS[encoder]
            env_steps = 100
    elif is_hybrid:
        hyperparameters |= {"batch_size": 256, "buffer_size": 50_000, "buffer_init_steps": 0}
    elif task.endswith(" 2"):
        hyperparameters["buffer_init_steps"] = 2000
    return {
        "trainer_type": "sac",
        "hyperparameters": hyperparameters,
        "network_settings": network,
        "max_steps": env_steps,
        "summary_freq": 100,
    }


ENCODERS = {"nature_cnn": "nature_cnn", "impala": "resnet", "match3": "match3"}
