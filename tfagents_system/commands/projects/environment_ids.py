"""Resolves the name of an environment: `Pendulum-v1`, `dm_control:cheetah/run`."""

import contextlib
import dataclasses
import importlib
import io
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from tfagents_system.commands.projects.environment_options import importing_from_here
from tfagents_system.core.checkout import how_to_install
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.installed import is_installed
from tfagents_system.core.names import nearest_name
from tfagents_system.core.process.guest import GUEST, UserCodeError
from tfagents_system.environments import headless

KINDS = ("gymnasium", "gym", "pybullet", "dm_control", "partial", "unity")
# Registries in the order of the search. PyBullet's environments are in gym's registry, too.
_REGISTRIES = {"gymnasium": "gymnasium", "pybullet": "pybullet_envs", "gym": "gym",
               "dm_control": "dm_control"}  # fmt: skip
USUAL_HORIZON = 1000  # env steps, if the environment has no time limit


@dataclasses.dataclass(frozen=True)
class EnvironmentId:
    """A registered environment, or a task of ours."""

    kind: str  # one of KINDS
    name: str  # "Pendulum-v1"; "cheetah/run" of dm_control, "pendulum-p" of ours, a build's path
    horizon: int  # env steps per episode
    observes_image: bool = False
    observes_goals: bool = False  # goal signals, from which layers of networks are generated
    is_discrete: bool = False  # whether an action has only discrete choices
    is_one_vector: bool = True  # whether an action is a single Box, which all algorithms take
    # Keys of the JSON config for the environment, in addition to its horizon.
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def slug(self) -> str:
        """The name for files and experiments; see `slug_of`."""
        return slug_of(str(self))

    def __str__(self) -> str:
        """Returns the unambiguous name for `find_environment`: gym:Pendulum-v1."""
        return f"{self.kind}:{self.name}"


def slug_of(text: str) -> str:
    """Returns the name for files and experiments: half_cheetah_bullet, cheetah_run."""
    name = re.sub(r"(Env)?(-v\d+)?$", "", text.rpartition(":")[2])
    if text.startswith("unity:"):
        name = name.rpartition("/")[2].partition(".")[0]
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"\W+", "_", words).strip("_").lower()


def find_environment(text: str) -> EnvironmentId:
    """Returns the environment that `text` names.

    Args:
      text: An id of gymnasium, PyBullet, gym or dm_control, searched in this order; or with its
        package before a colon: "gym:Pendulum-v1", "dm_control:cheetah/run", "partial:pendulum-p",
        "unity:builds/Ball.x86_64".
        An id that another package registers when imported has the form
        "panda_gym:PandaReach-v3".

    Raises:
      ConfigError: If there is no such environment, or its package is not installed.
    """
    kind, colon, name = text.partition(":")
    if not (kind and name) and (colon or not text):
        raise ConfigError(
            f"There is no environment {text!r}. Expected an id such as Pendulum-v1, one of "
            f"{', '.join(f'{kind}:ID' for kind in KINDS)}, or PACKAGE:ID."
        )
    kinds = [kind]
    if is_open := not (colon and kind in KINDS):
        name = text
        kinds = [kind for kind, module in _REGISTRIES.items() if is_installed(module)]
    if kinds == ["partial"]:
        task = importlib.import_module("tfagents_system.tasks.partial").find(name)
        return EnvironmentId("partial", name, task.horizon, task.observes_image)
    if kinds == ["unity"]:
        return EnvironmentId("unity", name, USUAL_HORIZON)
    if kinds == ["dm_control"] and not is_open:
        return _of_dm_control(name)
    package, _, registered = name.rpartition(":")
    if package:
        _import_package(package, text)
    known: set[str] = set()
    for kind in kinds:
        if kind == "dm_control":
            if name in (tasks := _tasks_of_dm_control()):
                return EnvironmentId(kind, name, USUAL_HORIZON)
            known |= set(tasks)
            continue
        registry = found = _registry(kind)
        if kind == "pybullet":
            found = {name: spec for name, spec in registry.items() if _is_of_pybullet(spec)}
        if registered in (found if is_open else registry):
            horizon = registry[registered].max_episode_steps or USUAL_HORIZON
            return EnvironmentId(kind, name, int(horizon))
        known |= found.keys()
    nearest = nearest_name(registered, known)
    if nearest and not is_open:
        nearest = f"{kinds[0]}:{nearest}"
    raise ConfigError(
        f"There is no environment {text!r} in {', '.join(kinds)}."
        + (f" Did you mean {nearest}?" if nearest else "")
        + ("" if package else
           " One that a package of yours registers is PACKAGE:ID, such as panda_gym:PandaReach-v3.")
    )  # fmt: skip


def _import_package(package: str, text: str) -> None:
    """Imports the package that registers an environment; raises ConfigError if it cannot."""
    try:
        with importing_from_here(), hidden_output():
            with GUEST.visit(f"importing {package}"):
                importlib.import_module(package)
    except UserCodeError as error:
        is_missing = getattr(error.__cause__, "name", None) == package  # so its code has not run
        reason = error.reason if is_missing else error.reason_and_place
        raise ConfigError(
            f"{text}: {package} cannot be imported: {reason}. Expected before "
            f"the colon: a package that registers environments, or one of {', '.join(KINDS)}."
        ) from error


def _registry(kind: str) -> dict[str, Any]:
    """Returns the specs by id; each has `max_episode_steps`."""
    with hidden_output():
        try:
            if kind == "gymnasium":
                return dict(importlib.import_module("gymnasium").registry)
            if kind == "pybullet":
                importlib.import_module("pybullet_envs")
            gym = importlib.import_module("gym")
        except ImportError as error:
            raise ConfigError(f"{kind} is not installed ({error}).") from error
    return dict(gym.envs.registry.env_specs)


def _is_of_pybullet(spec: Any) -> bool:
    return str(spec.entry_point).startswith(f"{_REGISTRIES['pybullet']}.")


@contextlib.contextmanager
def hidden_output() -> Iterator[None]:
    """Hides output of imports: gym advertises its successor, pybullet_envs prints its paths."""
    hidden = io.StringIO()
    with contextlib.redirect_stdout(hidden), contextlib.redirect_stderr(hidden):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield


def _of_dm_control(name: str) -> EnvironmentId:
    if not is_installed("dm_control"):
        raise ConfigError(f"dm_control is not installed: {how_to_install('dm_control')}")
    tasks = _tasks_of_dm_control()
    if name not in tasks:
        nearest = nearest_name(name, tasks)
        raise ConfigError(
            f"dm_control has no task {name!r}; write dm_control:DOMAIN/TASK."
            + (f" Did you mean dm_control:{nearest}?" if nearest else "")
        )
    return EnvironmentId("dm_control", name, USUAL_HORIZON)


def _tasks_of_dm_control() -> list[str]:
    headless.choose_renderer()  # dm_control reads it when it is imported
    suite = importlib.import_module("dm_control.suite")
    return ["/".join(pair) for pair in suite.ALL_TASKS]
