"""Measures a peer's seconds from process start until the mean of 10 greedy episodes is at a level.

Example: python -m benchmarks.peers.solve --peer sbx --environment Pendulum-v1 --level -200 \
--seed 1 --eval_period 1000 --limit_secs 300
The settings are the RL Zoo's for SAC, the best known ones. With --algorithm they are the package's
defaults for that algorithm, with networks of 256 and 256 units.
"""

from typing import Annotated, Any

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecNormalize,
    sync_envs_normalization,
)

from benchmarks import program
from benchmarks.measurements import LEVELS_OF_ALGORITHMS, PEERS
from benchmarks.peers.environments import make_environment
from benchmarks.peers.models import DEFAULTS, make_model
from benchmarks.process_stats import secs_since_start
from tfagents_system.core.programs.command_line import AtLeast, OneOf

NUM_EPISODES = 10
SETTINGS: dict[str, dict[str, Any]] = {
    "Pendulum-v1": {"learning_rate": 1e-3, "batch_size": 256, "train_freq": 1},
    "HalfCheetahBulletEnv-v0": {
        "learning_rate": 7.3e-4,
        "buffer_size": 300_000,
        "batch_size": 256,
        "ent_coef": "auto",
        "gamma": 0.98,
        "tau": 0.02,
        "train_freq": 8,
        "gradient_steps": 8,
        "learning_starts": 10_000,
        "use_sde": True,
        "policy_kwargs": {"log_std_init": -3, "net_arch": [400, 300]},
    },
}
NORMALIZING = ("simba",)  # observations, as SBX's documentation advises


class Evaluator(BaseCallback):
    """Evaluates every `eval_period` env steps; ends `learn` at the level or at the limit."""

    def __init__(self, environment: Any, level: float, eval_period: int, limit_secs: float):
        super().__init__()
        self._environment, self._level = environment, level
        self._eval_period, self._limit_secs = eval_period, limit_secs
        self.evaluations: list[tuple[float, int, float]] = []  # (secs, env step, mean return)
        self.solved_at: float | None = None

    def _on_step(self) -> bool:
        if self.num_timesteps % self._eval_period == 0:
            if isinstance(self._environment, VecNormalize):
                sync_envs_normalization(self.training_env, self._environment)
            mean, _ = evaluate_policy(self.model, self._environment, NUM_EPISODES)
            secs = secs_since_start()
            self.evaluations.append((secs, self.num_timesteps, float(mean)))
            if mean >= self._level and secs <= self._limit_secs:
                self.solved_at = secs
        return self.solved_at is None and secs_since_start() < self._limit_secs


def main(
    peer: Annotated[str, OneOf(PEERS)],
    environment: Annotated[str, OneOf([*SETTINGS, *LEVELS_OF_ALGORITHMS])],
    level: float,
    seed: int,
    eval_period: Annotated[int, AtLeast(1)],
    limit_secs: Annotated[float, AtLeast(0)],
    algorithm: Annotated[str | None, OneOf(DEFAULTS)] = None,
) -> None:
    """Measures and prints the result.

    Args:
      peer: Package to measure.
      environment: Environment to measure on.
      level: Mean return to reach.
      seed: Seed of the run.
      eval_period: Env steps between evaluations.
      limit_secs: Time limit.
      algorithm: An algorithm of SBX, with its defaults.
    """
    environment = environment.partition(",")[0]
    eval_environment = Monitor(make_environment(environment))
    eval_environment.reset(seed=seed + 1_000_000)
    environments = [make_environment(environment), eval_environment]
    if algorithm in NORMALIZING:
        environments = [
            VecNormalize(DummyVecEnv([lambda made=made: made]), training, norm_reward=False)
            for made, training in zip(environments, (True, False), strict=True)
        ]
    evaluator = Evaluator(environments[1], level, eval_period, limit_secs)
    model = make_model(
        peer,
        environments[0],
        seed=seed,
        **(DEFAULTS[algorithm] if algorithm else SETTINGS[environment]),
    )
    model.learn(10**9, evaluator, log_interval=None)
    program.print_result(
        "solved_secs", evaluator.solved_at, "s", seed=seed, level=level,
        best_mean=max((mean for _, _, mean in evaluator.evaluations), default=None),
        evaluations=evaluator.evaluations,
    )  # fmt: skip


if __name__ == "__main__":
    program.run(main)
