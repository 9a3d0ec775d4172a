"""Defines the training lengths and settings for the small tasks of tasks/simple.py."""

from typing import Any, NamedTuple

from tfagents_system.agents.agent_settings import IMAGE_ENCODERS
from tfagents_system.tasks.simple import TASKS

IMITATED = {"gail": "discrete", "gail image": "discrete image"}
"""Tasks that are learned from demonstrations, and the ones of TASKS that they are otherwise."""


class Budget(NamedTuple):
    """The length of a training, and settings in addition to benchmarks/params/simple.py."""

    env_steps: int
    threshold: float
    settings: dict[str, Any]
    num_random: int = 100  # env steps before the first train step
    capacity: int = 5000  # env steps in the replay buffer
    horizon: int = 20  # env steps per episode and iteration, at most; random actions need several


def budget_of(task: str) -> Budget:
    """Returns the budget of a task of TASKS or IMITATED, as in the reference tests."""
    if task in IMITATED:
        gail = {"encoding_size": 32, "use_actions": True, "learning_rate": 3e-3}
        cloning = {"strength": 1.0, "steps": 1000}
        imitation = {"reward_signals": {"gail": gail}, "behavioral_cloning": cloning}
        return Budget(500, 0.9, imitation | {"train_batch_size": 32}, horizon=50)
    if task.startswith("2019"):
        layers = dict.fromkeys(("actor_fc_layer_params", "critic_joint_fc_layer_params"), (64,))
        return Budget(2000, 0.99, layers | {"train_batch_size": 32}, 1000, 10_240, horizon=200)
    hybrid = TASKS[task].get("num_discrete") and TASKS[task].get("num_continuous", 1)
    small_rate = dict.fromkeys(
        ("actor_learning_rate", "critic_learning_rate", "alpha_learning_rate"), 3e-4
    )
    if TASKS[task].get("must_remember"):
        rate = small_rate if hybrid else dict.fromkeys(small_rate, 1e-3)
        memory = {"recurrent": True, "rnn_units": 16, "recurrent_sequence_length": 16}
        return Budget(4000, 0.9, rate | memory | {"train_batch_size": 16}, 1000)
    if TASKS[task].get("num_cameras"):
        settings = small_rate | {"train_batch_size": 128 if hybrid else 16}
        encoder, _, _ = task.rpartition(" ")
        if encoder in IMAGE_ENCODERS:  # 100 env steps, including the random ones
            return Budget(80, 0.5, settings | {"image_encoder": encoder}, num_random=20)
        # Random moves of 0.2 seldom reach an end within 20 env steps.
        return Budget(3000, 0.9, settings) if hybrid else Budget(1000, 0.9, settings, horizon=50)
    goals = {}
    if task.startswith("goal"):
        goals["goal_observations"] = ["goal" if "list" in task else "observation"]
    if num_lists := TASKS[task].get("num_lists"):
        is_alone = num_lists == 1 and not goals
        names = ["observation"] if is_alone else [f"list_{index}" for index in range(num_lists)]
        lists = goals | {"entity_observations": names, "train_batch_size": 16}
        return Budget(1000, 0.9, small_rate | lists)
    if hybrid:
        return Budget(8000, 0.9, {"train_batch_size": 256}, capacity=50_000)
    if task.endswith(" 2"):
        return Budget(3000, 0.8, {"train_batch_size": 8}, 2000)
    return Budget(1000, 0.9, goals | {"train_batch_size": 8})
