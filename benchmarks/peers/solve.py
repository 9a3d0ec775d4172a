"""Seconds from a peer's process start until the mean of 10 greedy episodes reaches a level.

Usage: python -m benchmarks.peers.solve --peer sb3|sbx --environment NAME --level L --seed S
           --eval_period N --limit_secs T
The settings are those of the RL Zoo for SAC, the best known ones.
"""

from typing import Any

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from benchmarks import program
from benchmarks.peers.environments import make_environment
from benchmarks.peers.models import argument_parser, make_model
from benchmarks.process_stats import secs_since_start

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
            mean, _ = evaluate_policy(self.model, self._environment, NUM_EPISODES)
            secs = secs_since_start()
            self.evaluations.append((secs, self.num_timesteps, float(mean)))
            if mean >= self._level and secs <= self._limit_secs:
                self.solved_at = secs
        return self.solved_at is None and secs_since_start() < self._limit_secs


def main() -> None:
    """Measures and prints the result."""
    parser = argument_parser(__doc__.splitlines()[0])
    parser.add_argument("--environment", choices=SETTINGS, required=True)
    parser.add_argument("--level", type=float, required=True, help="mean return to reach")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--eval_period", type=int, required=True, help="env steps")
    parser.add_argument("--limit_secs", type=float, required=True)
    arguments = parser.parse_args()
    eval_environment = Monitor(make_environment(arguments.environment))
    eval_environment.reset(seed=arguments.seed + 1_000_000)
    evaluator = Evaluator(
        eval_environment, arguments.level, arguments.eval_period, arguments.limit_secs
    )
    model = make_model(
        arguments.peer,
        make_environment(arguments.environment),
        seed=arguments.seed,
        **SETTINGS[arguments.environment],
    )
    model.learn(10**9, evaluator, log_interval=None)
    program.print_result(
        "solved_secs", evaluator.solved_at, "s", seed=arguments.seed, level=arguments.level,
        best_mean=max((mean for _, _, mean in evaluator.evaluations), default=None),
        evaluations=evaluator.evaluations,
    )  # fmt: skip


if __name__ == "__main__":
    program.run(main)
