"""Makes an environment once, before files for it are written."""

import dataclasses
import importlib
import inspect
import pathlib
from collections.abc import Mapping
from typing import Any

from tfagents_system.commands.projects.environment_ids import EnvironmentId, hidden_output
from tfagents_system.commands.projects.environment_options import (
    WRAP_EXAMPLE,
    EnvironmentOptions,
    WrapperCall,
    importing_from_here,
)
from tfagents_system.core.checkout import how_to_install
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.names import did_you_mean
from tfagents_system.core.process.cpus import available_cpus, check_suffices, cpu_count
from tfagents_system.core.process.guest import GUEST, UserCodeError
from tfagents_system.core.settings.variables import Settings
from tfagents_system.launch.local.plan import everything, may_share_cpus

ACTION_SPACES = "Box", "Discrete", "MultiDiscrete", "MultiBinary"  # by class name
# Pixels; same as LEAST_CLEAR_SIDE of data/images.py, which imports TensorFlow. Smaller uint8 grids,
# such as MiniGrid's, are learned with the settings for vectors.
LEAST_SIDE = 20
MOST_CHANNELS = 16  # of float images, same as in data/images.py
_GYM = "gymnasium", "gym", "pybullet"
# The base class of wrappers, by the package that makes the environment.
_BASES = {
    "gymnasium": ("gymnasium", "Wrapper"),
    "gym": ("gym", "Wrapper"),
    "pybullet": ("gym", "Wrapper"),
    "dm_control": ("tf_agents.environments.wrappers", "PyEnvironmentBaseWrapper"),
    "partial": ("tf_agents.environments.wrappers", "PyEnvironmentBaseWrapper"),
}


def try_environment(
    environment: EnvironmentId, options: EnvironmentOptions | None = None
) -> EnvironmentId:
    """Makes the environment with the options, to check the options and its actions.

    An environment of dm_control, or a task of ours, is only made if there are options for it; a
    Unity build is made when its project is written.

    Returns:
      The environment; one of gymnasium, gym or PyBullet with its kind of actions and whether it
      observes an image.

    Raises:
      ConfigError: If it cannot be made, an option is wrong, or the agents do not support its
        actions.
    """
    options = options or EnvironmentOptions()
    if environment.kind == "unity":
        return environment
    if environment.kind not in _GYM and not (options.kwargs or options.wrappers or options.horizon):
        return environment
    with importing_from_here():
        return _try(environment, options)


def _try(environment: EnvironmentId, options: EnvironmentOptions) -> EnvironmentId:
    is_gym = environment.kind in _GYM
    check_kwargs(environment, options)
    wrappers = [_class_of(call, environment.kind) for call in options.wrappers]
    try:
        with hidden_output(), GUEST.visit(environment.name):
            made = _make(environment, options)
    except UserCodeError as error:
        given = options.flags().get("--env_kwargs")
        reason = f"{error.reason_and_place}{f' with --env_kwargs {given}' if given else ''}"
        if type(error.__cause__).__name__ == "DependencyNotInstalled":  # of gymnasium or gym
            # Only environments of which gymnasium has newer versions need mujoco_py.
            missing = reason.lower().replace("mujoco_py", "")
            extras = [name for name in ("box2d", "mujoco") if name in missing]
            reason += "".join(f" Here: {how_to_install(extra)}" for extra in extras)
        raise ConfigError(f"{environment.name} cannot be made: {reason}") from error
    try:
        _check_horizon(environment, options, made)
        for call, wrapper in zip(options.wrappers, wrappers, strict=True):
            made = _wrapped(made, call, wrapper)
        if is_gym:
            _check_actions(environment, made)
            environment = dataclasses.replace(
                environment,
                observes_image=_has_image(made.observation_space),
                is_discrete="Box" not in _kinds(made.action_space),
                is_one_vector=type(made.action_space).__name__ == "Box",
            )
        return environment
    finally:
        with hidden_output(), GUEST.visit(f"{environment.name}.close"):
            made.close()


def check_workers(options: EnvironmentOptions, environ: Mapping[str, str]) -> None:
    """Checks the number of workers, with the SAC_* variables of the shell.

    Raises:
      ConfigError: If a start would refuse it. If the user allots no CPUs to each program, all
        programs share the CPUs, so that there may be more workers than CPUs.
    """
    if options.workers is None:
        return
    named = {"SAC_EXP_NAME": "a", "SAC_PARAMS": "a", "SAC_CONFIG": "a"}
    workers = {"SAC_NUM_COLLECT_WORKERS": str(options.workers)}
    settings = Settings.from_environ({**environ, **named, **workers})
    if settings.placement == "local" and not may_share_cpus(settings):
        programs = everything(settings, pathlib.Path(), cpu_count())
        demand = {program.name: program.num_cpus for program in programs}
        check_suffices(demand, cpu_count(), available_cpus())


def _make(environment: EnvironmentId, options: EnvironmentOptions) -> Any:
    if environment.kind == "dm_control":
        adapter = importlib.import_module("tfagents_system.environments.dm_control_adapter")
        return adapter.load(*environment.name.split("/"), task_kwargs=options.kwargs)
    if environment.kind == "partial":
        return importlib.import_module("tfagents_system.tasks.partial").load(environment.name)
    package = importlib.import_module("gymnasium" if environment.kind == "gymnasium" else "gym")
    return package.make(environment.name, **options.kwargs)


def check_kwargs(environment: EnvironmentId, options: EnvironmentOptions) -> None:
    """Raises ConfigError for a keyword argument that the constructor does not have."""
    if not options.kwargs:
        return
    if environment.kind == "partial":
        raise ConfigError(
            f"--env_kwargs: {environment} has no arguments. Write a wrapper, or another task, into "
            f"the params file of: sac new NAME --from {environment}"
        )
    with hidden_output(), GUEST.visit(f"importing {environment.name}"):
        parameters = inspect.signature(_constructor(environment)).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    allowed = [
        name
        for name, parameter in parameters.items()
        if name != "self" and parameter.kind is not parameter.VAR_POSITIONAL
    ]
    for name in options.kwargs:
        if name in allowed:
            continue
        hint = did_you_mean(name, allowed) if allowed else " It takes none."
        if name == "max_episode_steps":
            hint = " The time limit is --horizon."
        raise ConfigError(f"--env_kwargs: {environment} has no argument {name!r}.{hint}")


def _constructor(environment: EnvironmentId) -> Any:
    if environment.kind == "unity":
        return importlib.import_module("tfagents_system.environments.unity_adapter").load
    if environment.kind == "dm_control":
        suite = importlib.import_module("dm_control.suite")
        domain, _, task = environment.name.partition("/")
        return suite._DOMAINS[domain].SUITE[task]
    name = environment.name.rpartition(":")[2]
    if environment.kind == "gymnasium":
        registration = importlib.import_module("gymnasium.envs.registration")
        entry_point, load = registration.registry[name].entry_point, registration.load_env_creator
    else:
        registration = importlib.import_module("gym.envs.registration")
        entry_point, load = registration.spec(name).entry_point, registration.load
    return entry_point if callable(entry_point) else load(entry_point)


def _class_of(call: WrapperCall, kind: str) -> type:
    """Returns the class of a wrapper; raises ConfigError if it is not a wrapper of this kind."""
    module, name = _BASES[kind]
    base = getattr(importlib.import_module(module), name)
    what = f"--wrap {call}"
    allowed = f"a {module}.{name}, which wraps an environment of {kind}"
    if kind == "gymnasium":
        allowed += f", such as {WRAP_EXAMPLE}"
    try:
        with hidden_output(), GUEST.visit(f"importing {call.module}"):
            found = getattr(importlib.import_module(call.module), call.name, None)
    except UserCodeError as error:
        raise ConfigError(
            f"{what}: {call.module} cannot be imported: {error.reason}; expected {allowed}."
        ) from error
    if found is None:
        names = [key for key, value in vars(importlib.import_module(call.module)).items()
                 if isinstance(value, type) and issubclass(value, base)]  # fmt: skip
        hint = did_you_mean(call.name, names) if names else f" Expected {allowed}."
        raise ConfigError(f"{what}: {call.module} has no {call.name}.{hint}")
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ConfigError(f"{what}: {call.module}.{call.name} is not {allowed}.")
    return found


def _wrapped(made: Any, call: WrapperCall, wrapper: Any) -> Any:
    try:
        with hidden_output(), GUEST.visit(call.name):
            return wrapper(made, *call.args, **call.kwargs)
    except UserCodeError as error:
        raise ConfigError(
            f"--wrap {call}: {error.reason}; expected {call.name}{inspect.signature(wrapper)}, "
            "without its first argument."
        ) from error


def _check_horizon(environment: EnvironmentId, options: EnvironmentOptions, made: Any) -> None:
    """Raises ConfigError if the environment's own limit, which is fixed, ends episodes earlier."""
    limit = {"dm_control": getattr(made, "horizon", None), "partial": environment.horizon}.get(
        environment.kind
    )
    if limit is not None and options.horizon is not None and options.horizon > limit:
        longer = " A longer one: --env_kwargs time_limit=SECONDS." * (
            environment.kind == "dm_control"
        )
        raise ConfigError(
            f"--horizon is {options.horizon}, but {environment} ends after {limit} env steps; "
            f"expected 1 to {limit}.{longer}"
        )


def _check_actions(environment: EnvironmentId, made: Any) -> None:
    if not _has_actions(made.action_space):
        raise ConfigError(
            f"The actions of {environment.name} are {made.action_space}. Expected a Box: one "
            "floating point vector with finite bounds, such as Box(-1, 1, (2,)); Discrete, "
            "MultiDiscrete or MultiBinary; or a Dict or Tuple of these. Convert them by --wrap, or "
            f"in the params file of: sac new NAME --from {environment}"
        )


def _has_actions(space: Any) -> bool:
    """Returns whether the kind of a space is allowed; agents check its dtype and bounds."""
    kinds = _kinds(space)
    return bool(kinds) and kinds.issubset(ACTION_SPACES)


def _kinds(space: Any) -> set[str]:
    """Returns the class of a space by name; of a Dict or Tuple, the classes of its parts."""
    return set().union(*map(_kinds, _parts(space))) or {type(space).__name__}


def _has_image(space: Any) -> bool:
    """Returns whether a space is, or has, images that learning treats as images, not tiny ones.

    Floats are images with three axes, as in data/images.py.
    """
    if parts := _parts(space):
        return any(map(_has_image, parts))
    if type(space).__name__ != "Box" or len(space.shape) not in (2, 3):
        return False
    if str(space.dtype) != "uint8":
        is_image = str(space.dtype).startswith("float") and len(space.shape) == 3
        if not is_image or min(space.shape[0], space.shape[-1]) > MOST_CHANNELS:
            return False
    return sorted(space.shape)[-2] >= LEAST_SIDE


def _parts(space: Any) -> list[Any]:
    """Returns the parts of a Dict or Tuple; none for another space."""
    kind = type(space).__name__
    if kind == "Dict":
        return list(space.spaces.values())
    return list(space.spaces) if kind == "Tuple" else []
