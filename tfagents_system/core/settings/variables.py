"""Reads the SAC_* environment variables of a run into one frozen value."""

import dataclasses
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.names import did_you_mean, nearest_name

AUTO = "auto"
INITIALIZE_FROM = "SAC_INITIALIZE_FROM"
MLAGENTS_TAGS = "SAC_MLAGENTS_TAGS"
GIN_BINDINGS = "SAC_GIN_BINDINGS"

VARIABLES: Mapping[str, str] = {
    "SAC_EXP_NAME": "name of the experiment; its folder is logs/<name>",
    "SAC_PARAMS": "params file: Python, defines the class TrainParams",
    "SAC_CONFIG": "JSON config, which TrainParams gets as env_config",
    "SAC_NUM_COLLECT_WORKERS": "number of worker programs, or auto",
    "SAC_COLLECT_WORKER_CPUS": "CPUs of each worker, or auto",
    "SAC_TRAIN_CPUS": "CPUs of the learner, or auto",
    "SAC_REVERB_CPUS": "CPUs of the replay server, or auto",
    "SAC_REVERB_PORT": "TCP port of the replay server, or auto for a free one",
    "SAC_PRIVATE_NETWORK": "1 for a network of the run's own, 0 for the machine's, or auto",
    "SAC_ENV_TIMEOUT_SECS": "longest time of an env step, reset, constructor or hook, or auto",
    "SAC_SEED": "seed of everything random, or auto for a fresh one",
    "SAC_DETERMINISTIC": "1 for runs in lock step that a seed repeats bit for bit, 0, or auto",
    "SAC_PLACEMENT": "local for this machine, slurm or ray for several, or auto for local",
    "SAC_RAY_ADDRESS": "address of the Ray cluster, or auto for the one this machine is part of",
    "SAC_WORKERS_PER_SHARE": "workers that are placed together with SLURM or Ray, or auto",
    "SAC_EVAL_WORKERS": "number of programs that only evaluate, or auto for none",
    "SAC_WANDB": "1 to mirror the run to Weights & Biases, 0, or auto for 0",
    "SAC_MLFLOW": "1 to mirror the run to MLflow, 0, or auto for 0",
    MLAGENTS_TAGS: "1 for TensorBoard values also by the tags of ML-Agents, 0, or auto for 0",
    INITIALIZE_FROM: "experiment, or experiment:checkpoint, whose weights a new one starts from",
    GIN_BINDINGS: "gin bindings that override hyperparameters, separated by newlines or ;",
}

ENV_TIMEOUT_SECS = 600  # long enough for a slow robot or simulator; after that it is dead
PLACEMENTS = ("local", "slurm", "ray")
# The text between newlines and semicolons, ignoring those inside strings.
_BINDINGS = re.compile(r"""(?:'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|[^;\n])+""")


@dataclasses.dataclass(frozen=True)
class Settings:
    """The user's settings; None stands for `auto`."""

    exp_name: str
    params: pathlib.Path
    config: pathlib.Path
    num_collect_workers: int | None
    collect_worker_cpus: int | None
    train_cpus: int | None
    reverb_cpus: int | None
    reverb_port: int | None
    private_network: bool | None
    env_timeout_secs: int | None
    seed: int | None
    deterministic: bool
    placement: str  # one of PLACEMENTS
    ray_address: str | None
    workers_per_share: int
    eval_workers: int
    wandb: bool
    mlflow: bool
    mlagents_tags: bool
    initialize_from: str | None  # EXP[:CHECKPOINT]
    gin_bindings: tuple[str, ...]
    task_id: int | None  # SLURM_ARRAY_TASK_ID

    @property
    def exp_dir(self) -> pathlib.Path:
        """The folder `logs/<experiment>`, one for each task of a SLURM job array."""
        suffix = "" if self.task_id is None else f"_task_{self.task_id}"
        return pathlib.Path("logs") / f"{self.exp_name}{suffix}"

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "Settings":
        """Reads the variables; empty counts as unset.

        Raises:
          ConfigError: For an unknown SAC_* name, a missing or a malformed value.
        """
        for name in environ:
            if name.startswith("SAC_") and name not in VARIABLES:
                raise ConfigError(f"{name} is not a variable of this system.{_hint(name)}")
        deterministic = bool(_switch(environ, "SAC_DETERMINISTIC"))
        num_workers = _integer(environ, "SAC_NUM_COLLECT_WORKERS", 1, 4096)
        placement = _choice(environ, "SAC_PLACEMENT", PLACEMENTS)
        eval_workers = _integer(environ, "SAC_EVAL_WORKERS", 0, 4096) or 0
        if deterministic:
            _check_lock_step(num_workers, placement, eval_workers)
        return cls(
            exp_name=_name(environ, "SAC_EXP_NAME"),
            params=pathlib.Path(_required(environ, "SAC_PARAMS")),
            config=pathlib.Path(_required(environ, "SAC_CONFIG")),
            num_collect_workers=1 if deterministic else num_workers,
            collect_worker_cpus=_integer(environ, "SAC_COLLECT_WORKER_CPUS", 1, 4096),
            train_cpus=_integer(environ, "SAC_TRAIN_CPUS", 1, 4096),
            reverb_cpus=_integer(environ, "SAC_REVERB_CPUS", 1, 4096),
            reverb_port=_integer(environ, "SAC_REVERB_PORT", 1, 65535),
            private_network=_switch(environ, "SAC_PRIVATE_NETWORK"),
            env_timeout_secs=_integer(environ, "SAC_ENV_TIMEOUT_SECS", 1, 10**7),
            seed=_integer(environ, "SAC_SEED", 0, 2**32 - 1),
            deterministic=deterministic,
            placement=placement,
            ray_address=_ray_address(environ, "SAC_RAY_ADDRESS"),
            workers_per_share=_integer(environ, "SAC_WORKERS_PER_SHARE", 1, 4096) or 1,
            eval_workers=eval_workers,
            wandb=bool(_switch(environ, "SAC_WANDB")),
            mlflow=bool(_switch(environ, "SAC_MLFLOW")),
            mlagents_tags=has_mlagents_tags(environ),
            initialize_from=environ.get(INITIALIZE_FROM, "").strip() or None,
            gin_bindings=split_bindings(environ.get(GIN_BINDINGS, "")),
            task_id=_integer(environ, "SLURM_ARRAY_TASK_ID", 0, 2**32 - 1),
        )


def env_timeout_secs(environ: Mapping[str, str]) -> int:
    """Returns the longest time of a call of user code, such as an env step, in seconds.

    That is SAC_ENV_TIMEOUT_SECS, or the value of `auto`.
    """
    return _integer(environ, "SAC_ENV_TIMEOUT_SECS", 1, 10**7) or ENV_TIMEOUT_SECS


def has_mlagents_tags(environ: Mapping[str, str]) -> bool:
    """Returns whether programs write values under the tags of ML-Agents, too."""
    return bool(_switch(environ, MLAGENTS_TAGS))


def split_bindings(text: str) -> tuple[str, ...]:
    """Splits `a = 1; b = 2` (or one per line) into its bindings."""
    return tuple(part.strip() for part in _BINDINGS.findall(text) if part.strip())


def join_bindings(texts: Iterable[str]) -> str:
    """Joins bindings to one text; the inverse of `split_bindings`."""
    return "\n".join(text for text in texts if text)


def _check_lock_step(num_workers: int | None, placement: str, eval_workers: int) -> None:
    """Raises ConfigError for settings that a deterministic run cannot have."""
    why = "because the order in which the steps of several workers arrive differs from run to run"
    for variable, value, is_allowed, allowed in (
        ("SAC_NUM_COLLECT_WORKERS", num_workers, num_workers in (None, 1), f"{AUTO} or 1"),
        ("SAC_EVAL_WORKERS", eval_workers, eval_workers == 0, f"{AUTO} or 0"),
        ("SAC_PLACEMENT", placement, placement == "local", f"{AUTO} or local"),
    ):
        if not is_allowed:
            raise ConfigError(f"{variable} is {value} and SAC_DETERMINISTIC is 1; expected "
                              f"{allowed}, {why}.")  # fmt: skip


def _hint(name: str) -> str:
    """Returns a hint at the variable that is meant; ignores the prefix, which all have."""
    own = [variable.removeprefix("SAC_") for variable in VARIABLES]
    nearest = nearest_name(name.removeprefix("SAC_").upper(), own)
    meant = f"Did you mean SAC_{nearest}?" if nearest else f"Allowed: {', '.join(VARIABLES)}."
    return (
        f" {meant} Hyperparameters are not variables: set them in the params file, by --set of sac "
        f"train, or in {GIN_BINDINGS}."
    )


def _required(environ: Mapping[str, str], variable: str) -> str:
    value = environ.get(variable, "").strip()
    if not value:
        raise ConfigError(f"{variable} is not set. It is the {VARIABLES[variable]}.")
    return value


def _name(environ: Mapping[str, str], variable: str) -> str:
    value = _required(environ, variable)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", value):  # file names end at 255
        raise ConfigError(
            f"{variable} is {value!r}; expected letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit, 200 at most."
        )
    return value


def _integer(environ: Mapping[str, str], variable: str, low: int, high: int) -> int | None:
    value = environ.get(variable, "").strip()
    if value in ("", AUTO):
        return None
    if not re.fullmatch(r"[0-9]{1,10}", value) or not low <= int(value) <= high:
        raise ConfigError(
            f"{variable} is {value!r}; expected {AUTO} or an integer from {low} to {high}."
        )
    return int(value)


def _switch(environ: Mapping[str, str], variable: str) -> bool | None:
    value = environ.get(variable, "").strip()
    if value in ("", AUTO):
        return None
    if value not in ("0", "1"):
        raise ConfigError(f"{variable} is {value!r}; expected {AUTO}, 0 or 1.")
    return value == "1"


def _choice(environ: Mapping[str, str], variable: str, choices: Sequence[str]) -> str:
    """Returns one of `choices`, the first for `auto`."""
    value = environ.get(variable, "").strip()
    if value in ("", AUTO):
        return choices[0]
    if value not in choices:
        hint = did_you_mean(value, (AUTO, *choices))
        raise ConfigError(f"{variable} is {value!r}, which is not allowed.{hint}")
    return value


def _ray_address(environ: Mapping[str, str], variable: str) -> str | None:
    value = environ.get(variable, "").strip()
    if value in ("", AUTO):
        return None
    if not re.fullmatch(r"(ray://)?[^\s/:]+:[0-9]{1,5}", value):
        raise ConfigError(
            f"{variable} is {value!r}; expected {AUTO}, host:port or ray://host:port."
        )
    return value
