"""Published returns of the zoo's tasks.

zoo/published.csv has means over seeds, from the public result files of the authors of XQC
(arXiv:2509.25174, two train steps per env step), CrossQ (arXiv:1902.05605) and later comparisons
with SAC. They use version 4 of MuJoCo's environments.
"""

import csv
import functools
import pathlib
from collections.abc import Iterable
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

K = TypeVar("K")
Curve: TypeAlias = NDArray[np.float64]  # env steps and mean returns, [n, 2]
FILE = pathlib.Path(__file__).with_name("published.csv")
# In the documentation of Stable-Baselines3 2.x, "Results: PyBullet environments" of SAC, TD3 and
# DDPG: mean and standard error over three seeds after a million env steps.
OF_STABLE_BASELINES3 = {
    "half_cheetah_bullet": "2,757 ± 53", "ant_bullet": "3,146 ± 35",
    "hopper_bullet": "2,422 ± 168", "walker2d_bullet": "2,184 ± 54",
    "half_cheetah_bullet_td3": "2,774 ± 35", "hopper_bullet_td3": "2,429 ± 126",
    "half_cheetah_bullet_ddpg": "2,272 ± 69",
}  # fmt: skip
# Mean returns of random actions and of TD3 after a million env steps, from which SimBaV2,
# arXiv:2502.15280, computes its score (R - random) / (TD3 - random).
RANDOM_AND_TD3 = {
    "HalfCheetah-v5": (-289.4, 10574.0), "Hopper-v5": (18.8, 3226.0), "Walker2d-v5": (2.8, 3946.0),
    "Ant-v5": (-70.3, 3942.0), "Humanoid-v5": (120.4, 5165.0),
}  # fmt: skip


@functools.cache
def curves() -> dict[str, dict[str, NDArray[np.float64]]]:
    """Returns env steps and mean returns, [n, 2], by environment and algorithm."""
    with FILE.open(newline="") as file:
        return by_two_keys(
            (
                row["environment"],
                row["algorithm"],
                float(row["env_steps"]),
                float(row["mean_return"]),
            )
            for row in csv.DictReader(file)
        )


def by_two_keys(points: Iterable[tuple[str, K, float, float]]) -> dict[str, dict[K, Curve]]:
    """Returns curves [n, 2] of points (key, second key, env step, mean return), by both keys."""
    found: dict[str, dict[K, list[tuple[float, float]]]] = {}
    for first, second, *pair in points:
        found.setdefault(first, {}).setdefault(second, []).append((pair[0], pair[1]))
    return {
        first: {second: np.array(pairs) for second, pairs in curves.items()}
        for first, curves in found.items()
    }


def text_for(task: str, environment: str, num_simulator_steps: int) -> str:
    """Returns the cell of the table: "" if nothing is published.

    For XQC and the like, these are the last returns after at most `num_simulator_steps`.
    """
    if task in OF_STABLE_BASELINES3:
        return f"SB3 {OF_STABLE_BASELINES3[task]}"
    parts = []
    for algorithm, curve in curves().get(environment, {}).items():
        before = curve[curve[:, 0] <= num_simulator_steps]
        if len(before):
            parts.append(f"{algorithm} {before[-1, 1]:,.0f}")
    return ", ".join(parts)
