"""Loads a run for its programs: the user's TrainParams, the config and the paths."""

import dataclasses
import functools
import importlib.util
import pathlib
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

import gin
import numpy as np

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.guest import GUEST
from tfagents_system.core.process.process_start import is_own_process
from tfagents_system.core.process.user_modules import (
    params_module,
    show_source,
    spec_of,
    take_over,
)
from tfagents_system.core.programs.first_episode import FIRST_EPISODE
from tfagents_system.core.programs.missing_imports import refusal_of
from tfagents_system.core.settings.curriculum import Curriculum
from tfagents_system.core.settings.env_config import load_env_config
from tfagents_system.core.settings.hooks import call_method, copied
from tfagents_system.core.settings.hyperparameters import check_hyperparameter, hyperparameters
from tfagents_system.core.settings.params import Params
from tfagents_system.core.state.files import read_json
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.provenance import original_of, read_provenance
from tfagents_system.core.state.running import modules_in


@dataclasses.dataclass(frozen=True)
class Run:
    """One experiment as its programs see it."""

    paths: ExperimentPaths
    params: Params  # the user's TrainParams
    curriculum: Curriculum
    seed: int
    gin_bindings: Sequence[str] = ()

    @functools.cached_property
    def horizon(self) -> int:
        """Env steps per episode."""
        return self.params.env_config["horizon"]

    @property
    def num_train_steps(self) -> int:
        """Train steps after which training is finished."""
        return self.params.num_iter * self.params.num_steps_per_iter


def load_run(exp_dir: str) -> Run:
    """Loads the experiment in `exp_dir` with the config and params of its newest start.

    Prints a note for each attribute of TrainParams that may be a misspelt published one.

    Raises:
      ConfigError: If the config, the params file or a gin binding is wrong.
    """
    paths = ExperimentPaths(pathlib.Path(exp_dir))
    FIRST_EPISODE.set_run(paths)
    provenance = read_provenance(paths.provenance, ("seed",))
    if provenance is None or not paths.running_bindings.exists():
        missing = paths.provenance if provenance is None else paths.running_bindings
        raise ConfigError(f"{missing} does not exist; start the run with run_script.sh.")
    bindings = read_json(paths.running_bindings)
    env_config = load_env_config(paths.running_config)
    params = load_params(paths.running_params, env_config, bindings, paths.running)
    for note in params.check(str(paths.params)):  # the launcher has not seen imported base classes
        print(f"Note: {note}", flush=True)
    curriculum = curriculum_of(params, env_config, paths.running_config)
    for sampler in curriculum.custom_samplers():  # a wrong one would end the run at its lesson
        sampler.draw(np.random.default_rng(0))
    for note in curriculum.unreached(params.num_iter):
        print(f"Note: {paths.config}: {note}", flush=True)
    return Run(paths, params, curriculum, provenance["seed"], bindings)


def curriculum_of(params: Params, env_config: Mapping[str, Any], path: pathlib.Path) -> Curriculum:
    """Returns the curriculum of the config that was read from `path`."""
    draw_custom = functools.partial(call_method, params.sample_parameter)
    return Curriculum.from_config(env_config.get("curriculum", {}), str(path), draw_custom)


def load_params(
    path: pathlib.Path,
    env_config: dict[str, Any],
    gin_bindings: Sequence[str] = (),
    running: pathlib.Path | None = None,
) -> Params:
    """Imports the params file and returns its checked `TrainParams(env_config)`.

    Args:
      path: The params file, which is executed.
      env_config: The validated JSON config.
      gin_bindings: Bindings such as "TrainParams.discount = 0.95"; they override the file.
      running: Folder of the run's copies of modules that it imports; None without a run.

    Raises:
      ConfigError: If the file cannot be imported, has no concrete `TrainParams`, or sets a value
        that is not allowed.
    """
    gin.clear_config()  # drops bindings of a run that this process loaded before
    if not path.is_file() or path.suffix != ".py":
        raise ConfigError(f"{path}: no such params file (a Python file named *.py).")
    original = original_of(path)
    own = params_module(path, original)
    if own.file != str(original):
        print(f"Note: the folder of {original} is gone; {path} runs as if it were the original.",
              flush=True)  # fmt: skip
    take_over(own, modules_in(running) if running else (), running)
    if is_own_process():
        GUEST.remember()  # sys.argv is now the params file's
    module = importlib.util.module_from_spec(spec_of(own))
    sys.modules[own.name] = module
    code = compile_params(path, own.file)
    show_source(own.file, path.read_bytes())
    with GUEST.visit(f"importing {path}", is_patient=True):
        try:
            exec(code, module.__dict__)
        except ImportError as error:
            if refusal := refusal_of(error, own.file):
                raise refusal from error
            raise
    train_params = getattr(module, "TrainParams", None)
    if train_params is None:
        raise ConfigError(f"{path}: defines no class TrainParams.")
    if not (isinstance(train_params, type) and issubclass(train_params, Params)):
        raise ConfigError(f"{path}: TrainParams is not derived from TrainParamsBase.")
    missing = sorted(getattr(train_params, "__abstractmethods__", ()))
    if missing:
        raise ConfigError(f"{path}: TrainParams does not define {', '.join(missing)}.")
    with GUEST.visit("TrainParams.__init__"):
        params = train_params(copied(env_config))
    if not isinstance(getattr(params, "env_config", None), dict):
        params.env_config = copied(env_config)
    params.env_config.setdefault("horizon", env_config["horizon"])  # which our programs need
    _apply_gin_bindings(params, gin_bindings)
    params.check(f"{own.file}, with its gin bindings" if gin_bindings else own.file)
    return params


def gin_text(params: Params) -> str:
    """Returns all hyperparameters of `params`, and other gin bindings, in gin syntax."""
    lines = [f"TrainParams.{name} = {value!r}" for name, value in params.hyperparameters().items()]
    return "\n".join(lines) + "\n\n" + gin.operative_config_str()


def compile_params(path: pathlib.Path, file: str) -> types.CodeType:
    """Returns the code of the params file `path`, whose tracebacks name `file`.

    Raises:
      ConfigError: If it is not valid Python.
    """
    try:
        return compile(path.read_bytes(), file, "exec", dont_inherit=True)
    except (RecursionError, MemoryError) as error:  # of Python's parser and compiler
        raise ConfigError(f"{path}: nested too deeply for Python.") from error
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot read the params file ({error.strerror}). Set SAC_PARAMS to a Python "
            "file such as tfagents_system/pendulum_params.py."
        ) from error
    except (SyntaxError, ValueError) as error:
        place, reason = str(path), str(error)
        if isinstance(error, SyntaxError):
            place, reason = f"{path}:{error.lineno or 1}", error.msg
        raise ConfigError(f"{place}: not valid Python: {reason}") from error


def _overrides(**values: Any) -> dict[str, Any]:
    return values


def _apply_gin_bindings(params: Params, bindings: Sequence[str]) -> None:
    configurable = gin.external_configurable(_overrides, name="TrainParams", module="sac")
    for binding in bindings:
        try:
            gin.parse_config(binding)
        except Exception as error:  # of many types: gin parses, resolves and imports here
            raise ConfigError(f"gin binding {binding!r}: {error}") from error
    declared = hyperparameters(type(params))
    try:
        bound = configurable()
    except Exception as error:  # an undefined macro, or raised by what a reference calls
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"gin bindings {list(bindings)}: {reason}") from error
    for name, value in bound.items():
        check_hyperparameter(declared, name, value, "gin bindings")
        setattr(params, name, value)
