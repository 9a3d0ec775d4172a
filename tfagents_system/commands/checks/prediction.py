"""Predicts a run's time and bottleneck. Pure arithmetic."""

import dataclasses
import math
from collections.abc import Mapping

from tfagents_system.core.settings.minibatches import num_fresh_samples
from tfagents_system.core.settings.params import Params
from tfagents_system.data.item_layout import ItemLayout

# `./benchmarks/run.sh learner` measures them at 64 fresh samples a train step.
SERVER_CPU_SECS_PER_SAMPLE = 0.07e-3 / 64
ITEM_BYTES = 900.0  # memory of an item in the server, in addition to its rows
MOST_WORKERS = 512
WORTH = 1.1  # more workers are useful if training takes this many times as long without them


@dataclasses.dataclass(frozen=True)
class Work:
    """The work of a run."""

    train_steps: int
    env_steps: float  # with the learner's policy
    fill_env_steps: int  # before the first train step
    eval_env_steps: float
    samples: float  # sent by the replay server
    replay_bytes: float  # size of the full replay buffer

    @classmethod
    def of_run(
        cls, params: Params, layout: ItemLayout, row_bytes: int, episode_length: float
    ) -> "Work":
        """Derives the work from the hyperparameters; see docs/performance.md.

        Args:
          params: The user's TrainParams.
          layout: Layout of the items in the replay buffer.
          row_bytes: Size of an env step in the replay buffer.
          episode_length: Mean env steps per episode, which may be less than the horizon.
        """
        horizon = params.env_config["horizon"]
        train_steps = params.num_iter * params.num_steps_per_iter
        per_env_step = params.num_steps_per_iter / (params.n_train_episodes_per_iter * horizon)
        if params.update_ratio == "auto":
            per_env_step = params.max_update_ratio
        if layout.is_block:  # an episode's first rows are stored, too, but start no transitions
            stack = layout.frame_stack
            per_env_step *= (1 + stack / episode_length) / (1 + stack / horizon)
        period = params.eval_period_itrs
        num_evals = math.ceil(params.num_iter / period) if period else 0
        num_items = layout.items_per_episode(horizon) * params.n_episodes_in_buffer
        return cls(
            train_steps=train_steps,
            env_steps=train_steps / per_env_step,
            fill_env_steps=params.n_buffer_init_episodes * horizon,
            eval_env_steps=num_evals * params.n_eval_episodes * episode_length,
            samples=train_steps * num_fresh_samples(params),
            replay_bytes=float(num_items) * (ITEM_BYTES + row_bytes * layout.row_stride),
        )


@dataclasses.dataclass(frozen=True)
class Speeds:
    """The speeds of this machine, in seconds per step."""

    env_step: float  # of a worker, including policy and packing
    env_step_cpu: float  # the CPU time in `env_step`
    eval_step: float
    train_step: float
    train_step_cpu: float
    start: float  # of the learner, until its first train step


@dataclasses.dataclass(frozen=True)
class Allotment:
    """The division of this machine among programs."""

    num_cpus: int
    num_workers: int
    num_evaluators: int
    replay_cpus: int
    shares: bool  # whether programs share all CPUs
    takes_turns: bool = False  # worker and learner take turns, in a deterministic run

    @property
    def num_programs(self) -> int:
        """The number of programs, with the learner and the replay server."""
        return 2 + self.num_workers + self.num_evaluators


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The parts of a run's time in seconds, and the time that each program works."""

    start: float
    fill: float  # before the first train step
    training: float
    needs: Mapping[str, float]  # seconds of training by possible bottleneck

    @property
    def total(self) -> float:
        """Seconds of the whole run."""
        return self.start + self.fill + self.training

    @property
    def bottleneck(self) -> str:
        """The bottleneck, for which the others wait."""
        return max(self.needs, key=lambda what: self.needs[what])


def predict(work: Work, speeds: Speeds, allotment: Allotment) -> Prediction:
    """Returns the run's time: the time of its slowest part, for which all others wait."""
    workers = allotment.num_workers
    collecting = work.env_steps * speeds.env_step
    evaluating = work.eval_env_steps * speeds.eval_step
    cpu_share = speeds.env_step_cpu / speeds.env_step
    server = work.samples * SERVER_CPU_SECS_PER_SAMPLE
    needs = {
        "workers": (collecting + (0 if allotment.num_evaluators else evaluating)) / workers,
        "learner": work.train_steps * speeds.train_step,
        "replay server": server / allotment.replay_cpus,
    }
    if allotment.num_evaluators:
        needs["evaluators"] = evaluating / allotment.num_evaluators
    if allotment.shares:
        cpu_secs = (collecting + evaluating) * cpu_share + server
        cpu_secs += work.train_steps * speeds.train_step_cpu
        needs["CPUs"] = cpu_secs / allotment.num_cpus
    training = max(needs.values())
    if allotment.takes_turns:
        training = needs["workers"] + needs["learner"]
    at_once = allotment.num_programs if allotment.shares else 1
    fill_secs = max(speeds.env_step / workers, speeds.env_step_cpu / allotment.num_cpus)
    return Prediction(
        start=speeds.start * max(1.0, at_once / allotment.num_cpus),
        fill=work.fill_env_steps * fill_secs,
        training=training,
        needs=needs,
    )


def workers_worth_having(
    work: Work, speeds: Speeds, allotment: Allotment, most: int = MOST_WORKERS
) -> int:
    """Returns the smallest number of workers that is about as fast as `most`, on shared CPUs.

    Workers that wait for their simulator leave their CPU to others.
    """

    def training_secs(num_workers: int) -> float:
        shared = dataclasses.replace(allotment, num_workers=num_workers, shares=True)
        return predict(work, speeds, shared).training

    best = training_secs(most)
    return next(n for n in range(1, most + 1) if training_secs(n) <= WORTH * best)
