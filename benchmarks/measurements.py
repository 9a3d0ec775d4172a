"""Defines the measurements: names, contestants, command lines, cores, targets."""

import dataclasses
import sys
from collections.abc import Mapping, Sequence

OURS = "ours"
PEERS = ("sbx", "sb3")
WITHOUT_POOL = f"{OURS}, no pool"
IN_ARITHMETIC = {
    f"{OURS}, {arithmetic}": f"--binding=TrainParams.matmul_precision = '{arithmetic}'"
    for arithmetic in ("float32", "bfloat16", "int16")
}
BINDINGS = {
    WITHOUT_POOL: "--binding=TrainParams.fresh_samples_per_step = None", **IN_ARITHMETIC
}  # fmt: skip
ALGORITHMS = ("sac", "tqc", "crossq", "droq", "simba")  # of SBX
FAST_STEPS = (  # of CrossQ's paper, where our defaults are SAC's
    "TrainParams.sac_log_alpha = 0.0",
    *(f"TrainParams.{name}_learning_rate = 1e-3" for name in ("actor", "critic", "alpha")),
)
OTHERS_OF_OURS = {  # settings other than the defaults
    f"{OURS}, crossq, pink noise": (
        "TrainParams.algorithm = 'crossq'",
        "TrainParams.exploration_noise_beta = 1.0",
        *FAST_STEPS,
    ),
    f"{OURS}, layer norm, 3-step returns, pink noise, update ratio 2": (
        "TrainParams.num_steps_per_iter = 2000",  # for a horizon of 1,000
        "TrainParams.critic_layer_norm = True",
        "TrainParams.n_step_returns = 3",
        "TrainParams.exploration_noise_beta = 1.0",
        *FAST_STEPS,
    ),
}
RECURRENT = (  # segments of 50 env steps
    "recurrent = True",
    "segment_len = 50",
    "train_batch_size = 16",
    "rnn_units = 64",
)
UNPROTECTED = "unprotected"  # ours without checkpoints and journal
WITHOUT_LINK = "no link"  # ours with a replay server that is open to all hosts
HOSTS = "SleepingEnv, {} workers on {} hosts"
CHEETAH_BY_DEFAULTS = "HalfCheetahBulletEnv-v0, defaults"  # others: the RL Zoo's settings
REPEAT = "{repeat}"  # in a command line: the number of the repeat, from 1


@dataclasses.dataclass(frozen=True)
class Case:
    """A case: the same work for each contestant, on the same cores."""

    environment: str  # or another difference between the cases of a measurement
    cores: int
    commands: Mapping[str, Sequence[str]]  # by contestant, in the order of their turns
    deadline_secs: float = 600.0


@dataclasses.dataclass(frozen=True)
class Target:
    """The target for ours; the median counts."""

    times_best_peer: float | None = None  # 1.0: as good as the best of the others
    value: float | None = None  # at least (rates, shares) or at most (all others)


TargetKey = tuple[str, str, str | None, int | None]  # measurement, metric, environment, cores
TARGETS: Mapping[TargetKey, Target] = {  # None: in any environment, on any number of cores
    ("learner", "train_steps_per_sec", None, 1): Target(times_best_peer=1.15),
    ("learner", "train_steps_per_sec", None, 2): Target(times_best_peer=1.5),
    ("image_learner", "train_steps_per_sec", None, None): Target(times_best_peer=1.3),
    ("collection", "env_steps_per_sec", "Pendulum-v1", None): Target(times_best_peer=3.0),
    ("collection", "env_steps_per_sec", "FreeEnv", None): Target(value=10_000.0),
    ("loop", "env_steps_per_sec", "Pendulum-v1", None): Target(times_best_peer=1.4),
    ("loop", "env_steps_per_sec", "MinitaurBulletEnv-v0", None): Target(times_best_peer=1.5),
    ("protection", "train_steps_per_sec", None, None): Target(times_best_peer=0.97),
    ("journal", "worker_rate_with_journal", None, None): Target(value=97.0),
    ("startup", "first_train_step_secs", None, None): Target(value=12.0),
    ("startup", "worker_pss_mb", None, None): Target(value=250.0),
    ("replay", "bytes_per_transition", "100,000 transitions", None): Target(value=290.0),
    ("replay", "bytes_per_transition", "1,000,000 transitions", None): Target(value=290.0),
    ("replay", "times_raw_data", "10,000 images", None): Target(value=1.2),
    ("replay", "times_raw_data", "100,000 images", None): Target(value=1.2),
    ("replay", "times_raw_data", "10,000 images in stacks of 4", None): Target(value=1.2),
    ("replay", "times_raw_data", "100,000 images in stacks of 4", None): Target(value=1.2),
    ("replay", "restore_secs", None, None): Target(value=15.0),
    ("replay", "learner_rate_during_checkpoint", None, None): Target(value=95.0),
    ("replay", "checkpoint_without_learner_pause", None, None): Target(value=95.0),
    ("hosts", "env_steps_per_sec", HOSTS.format(32, 4), None): Target(times_best_peer=0.95),
    ("hosts", "share_of_full_rate", HOSTS.format(32, 4), None): Target(value=95.0),
    ("hosts", "share_of_full_rate", HOSTS.format(64, 8), None): Target(value=95.0),
    ("hosts", "longest_training_gap_secs", None, None): Target(value=2.0),
    ("hosts", "collecting_after_secs", None, None): Target(value=30.0),
    ("hosts", "training_after_secs", None, None): Target(value=60.0),
    ("solve", "solved_secs", "Pendulum-v1", None): Target(times_best_peer=1 / 0.9),
    ("solve", "solved_secs", "HalfCheetahBulletEnv-v0", None): Target(times_best_peer=1 / 0.8),
    ("solve", "solved_secs", "HopperBulletEnv-v0", None): Target(times_best_peer=1 / 0.6),
    ("solve", "solved_secs", CHEETAH_BY_DEFAULTS, None): Target(times_best_peer=1 / 0.6),
    ("solve", "solved_env_steps", "HopperBulletEnv-v0", None): Target(times_best_peer=1.0),
    ("solve", "solved_env_steps", CHEETAH_BY_DEFAULTS, None): Target(times_best_peer=1.0),
}
LEVELS_OF_ALGORITHMS = {"HopperBulletEnv-v0": 1800.0, CHEETAH_BY_DEFAULTS: 2000.0}
LEAST_SCALING = 0.95  # of N times the env steps/s of one worker


def find_target(name: str, metric: str, environment: str, cores: int) -> Target | None:
    """Returns the target of a measured value; None if it has none."""
    for key, target in TARGETS.items():
        wanted = (name, metric, environment, cores)
        if all(k is None or k == w for k, w in zip(key, wanted, strict=True)):
            return target
    return None


def is_ours(contestant: str) -> bool:
    """Returns whether a contestant is this project, with any settings."""
    return contestant.startswith(OURS)


class Commands:
    """Builds command lines; knows the peers' interpreter."""

    def __init__(self, peers_python: str):
        """`peers_python` is the output of setup_peers.sh."""
        self._peers_python = peers_python

    def ours(self, program: str, *arguments: str) -> list[str]:
        """Returns the command line of benchmarks/ours/<program>.py."""
        return [sys.executable, "-m", f"benchmarks.ours.{program}", *arguments]

    def peer(self, name: str, program: str, *arguments: str) -> list[str]:
        """Returns the command line of benchmarks/peers/<program>.py."""
        module = f"benchmarks.peers.{program}"
        return [self._peers_python, "-m", module, f"--peer={name}", *arguments]

    def all(self, program: str, *arguments: str) -> dict[str, list[str]]:
        """Returns the command lines of all contestants for programs with the same interface."""
        peers = {peer: self.peer(peer, program, *arguments) for peer in PEERS}
        return {OURS: self.ours(program, *arguments)} | peers


def make_measurements(commands: Commands, is_full: bool = False) -> dict[str, list[Case]]:
    """Returns the cases of each measurement by its name, in the order of the report.

    Args:
      commands: Builds the command lines.
      is_full: Include what takes hours: the largest sizes, HalfCheetah.
    """
    return {
        "learner": [_learner(commands, cores) for cores in (1, 2)],
        "image_learner": [_image_learner(commands, cores) for cores in (1, 2)],
        "collection": [_collection(commands, name) for name in ("Pendulum-v1", "FreeEnv")],
        "loop": [_loop(commands, name) for name in ("Pendulum-v1", "MinitaurBulletEnv-v0")],
        "protection": [
            _protection(commands, "Pendulum-v1"),
            _protection(commands, "Pendulum-v1", "td3", "algorithm = 'td3'"),
            _protection(commands, "Pendulum-v1", "recurrent", *RECURRENT),
            _protection(commands, "ImageEnv", "images", "checkpoint_period_secs = 60"),
        ],
        "journal": [Case("Pendulum-v1", 1, {OURS: commands.ours("journal")})],
        "pool": [_pool(commands, "InvertedDoublePendulumBulletEnv-v0", 20_000)],
        "precision": [
            _precision(commands, name, 200_000)
            for name in ("HalfCheetahBulletEnv-v0", "InvertedDoublePendulumBulletEnv-v0")
        ],
        "startup": [Case("Pendulum-v1", 2, commands.all("startup"))],
        "scaling": [
            _scaling(commands, workers) for workers in (1, 2, 4, 8, 16, 32, *([64] * is_full))
        ],
        "hosts": [
            _hosts(commands, workers, hosts)
            for workers, hosts in ((32, 4), (64, 8), *([(128, 8), (256, 8)] * is_full))
        ]
        + [_host_loss(commands, victim) for victim in ("workers", "core")],
        "replay": [
            case
            for count in (100_000, *([1_000_000] * is_full))
            for case in _replay(commands, count)
        ]
        + [
            _replay_of_images(commands, layout, name, count)
            for count in (10_000, *([100_000] * is_full))
            for layout, name in (("images", ""), ("stacked_images", " in stacks of 4"))
        ],
        "solve": [
            _solve(commands, name, level, eval_period, limit_secs)
            for name, level, eval_period, limit_secs in (
                ("Pendulum-v1", -200, 1000, 300.0),
                *([("HalfCheetahBulletEnv-v0", 1000, 10_000, 1800.0)] * is_full),
            )
        ]
        + [
            _solve_by_any_algorithm(commands, name, level)
            for name, level in LEVELS_OF_ALGORITHMS.items()
            if is_full
        ],
    }


def _solve_by_any_algorithm(commands: Commands, environment: str, level: float) -> Case:
    """Compares SBX's algorithms and ours, each with its defaults and layers of 256 and 256."""
    arguments = (
        f"--environment={environment}", f"--level={level}", f"--seed={REPEAT}",
        "--eval_period=10000", "--limit_secs=1200",
    )  # fmt: skip
    ours = {
        name: commands.ours("solve", *arguments, *(f"--binding={b}" for b in bindings))
        for name, bindings in ({OURS: ()} | OTHERS_OF_OURS).items()
    }
    peers = {
        f"sbx {name}": commands.peer("sbx", "solve", *arguments, f"--algorithm={name}")
        for name in ALGORITHMS
    }
    return Case(environment, 2, ours | peers, deadline_secs=1500.0)


def _learner(commands: Commands, cores: int) -> Case:
    variants = {name: commands.ours("learner", binding) for name, binding in BINDINGS.items()}
    xqc = commands.ours("learner", "--binding=TrainParams.algorithm = 'xqc'")
    simba = commands.peer("sbx", "learner", "--algorithm=simba")
    others = variants | {f"{OURS}, xqc": xqc, "sbx simba": simba}
    return Case("FreeEnv", cores, commands.all("learner") | others)


def _image_learner(commands: Commands, cores: int) -> Case:
    arguments = ("--environment=ImageEnv", "--num_transitions=2000", "--secs=30")
    sb3 = commands.peer("sb3", "learner", *arguments)
    contestants = {OURS: commands.ours("learner", *arguments), "sb3": sb3}
    return Case("ImageEnv", cores, contestants)


def _loop(commands: Commands, environment: str) -> Case:
    arguments = (f"--environment={environment}",)
    without_pool = commands.ours("loop", *arguments, BINDINGS[WITHOUT_POOL])
    return Case(environment, 2, commands.all("loop", *arguments) | {WITHOUT_POOL: without_pool})


def _collection(commands: Commands, environment: str) -> Case:
    arguments = (f"--environment={environment}", "--secs=15")
    peers = {peer: commands.peer(peer, "loop", *arguments, "--gradient_steps=0") for peer in PEERS}
    return Case(environment, 1, {OURS: commands.ours("collection", *arguments)} | peers)


def _protection(commands: Commands, environment: str, variant: str = "", *settings: str) -> Case:
    """Measures a whole run of two checkpoint periods (60 s); a variant's steps are slower."""
    warmup = ["--warmup_train_steps=200"] if variant in ("recurrent", "images") else []
    bindings = [f"--binding=TrainParams.{setting}" for setting in settings]
    command = commands.ours(
        "loop", f"--environment={environment}", "--secs=120", *warmup, *bindings
    )
    name = f"{environment}, {variant}" if variant else environment
    return Case(name, 2, {OURS: command, UNPROTECTED: [*command, "--unprotected"]})


def _pool(commands: Commands, environment: str, num_env_steps: int) -> Case:
    """Measures the effect of the pool on learning curves."""
    command = _curve(commands, environment, num_env_steps)
    contestants = {OURS: command, WITHOUT_POOL: [*command, BINDINGS[WITHOUT_POOL]]}
    return Case(environment, 2, contestants, deadline_secs=3600.0)


def _precision(commands: Commands, environment: str, num_env_steps: int) -> Case:
    """Measures the effect of the products' arithmetic on learning curves.

    One train step per four env steps and evaluations of three episodes, so that a run takes some
    ten minutes on its one core.
    """
    ratio = "--binding=TrainParams.num_steps_per_iter = 250"  # of 1,000 env steps
    command = [*_curve(commands, environment, num_env_steps), "--eval_episodes=3", ratio]
    contestants = {name: [*command, binding] for name, binding in IN_ARITHMETIC.items()}
    return Case(f"{environment}, {num_env_steps:,} env steps", 1, contestants, deadline_secs=3600.0)


def _curve(commands: Commands, environment: str, num_env_steps: int) -> list[str]:
    """Returns the command for a learning curve; each repeat is a seed."""
    return commands.ours(
        "curve", f"--environment={environment}", f"--seed={REPEAT}",
        f"--env_steps={num_env_steps}", f"--eval_period={num_env_steps // 20}",
    )  # fmt: skip


def _scaling(commands: Commands, num_workers: int) -> Case:
    command = commands.ours("scaling", f"--num_workers={num_workers}")
    name = f"SleepingEnv, {num_workers} workers"
    return Case(name, 2, {OURS: command}, deadline_secs=1200.0)


def _hosts(commands: Commands, num_workers: int, num_hosts: int) -> Case:
    command = commands.ours("hosts", f"--num_workers={num_workers}", f"--num_hosts={num_hosts}")
    contestants = {OURS: command, WITHOUT_LINK: [*command, "--nolinked"]}
    return Case(HOSTS.format(num_workers, num_hosts), 2, contestants, deadline_secs=900.0)


def _host_loss(commands: Commands, victim: str) -> Case:
    command = commands.ours("host_loss", f"--victim={victim}")
    return Case(f"Pendulum-v1, the host of {victim} dies", 2, {OURS: command})


def _replay(commands: Commands, count: int) -> list[Case]:
    size = f"--num_transitions={count}"
    layouts = {
        layout: commands.ours("replay", f"--layout={layout}", size)
        for layout in (OURS, "tf_agents")
    }
    stall = {OURS: commands.ours("checkpoint_stall", size)}
    name = f"{count:,} transitions"
    return [Case(name, 2, layouts, deadline_secs=1800.0), Case(name, 2, stall)]


def _replay_of_images(commands: Commands, layout: str, name: str, count: int) -> Case:
    command = commands.ours("replay", f"--layout={layout}", f"--num_transitions={count}")
    return Case(f"{count:,} images{name}", 2, {OURS: command}, deadline_secs=1800.0)


def _solve(
    commands: Commands, environment: str, level: float, eval_period: int, limit_secs: float
) -> Case:
    arguments = (
        f"--environment={environment}", f"--level={level}", f"--seed={REPEAT}",
        f"--eval_period={eval_period}", f"--limit_secs={limit_secs}",
    )  # fmt: skip
    deadline_secs = limit_secs + 300.0  # the last evaluation, and a clean end
    return Case(environment, 2, commands.all("solve", *arguments), deadline_secs)
