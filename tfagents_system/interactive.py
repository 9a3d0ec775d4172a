"""Starts training and loads policies from Python, such as in a notebook: docs/python.md.

Example: run = tfagents_system.train(env="Pendulum-v1", num_iter=50)
"""

import ast
import importlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from tfagents_system.commands.projects.environment_ids import slug_of
from tfagents_system.commands.projects.environment_options import WRAP_EXAMPLE, literal
from tfagents_system.core.errors import EXIT_CONFIG, EXIT_FINISHED, EXIT_STOPPED, ConfigError
from tfagents_system.core.installed import is_installed
from tfagents_system.core.leaves import without
from tfagents_system.core.process.process_start import launch_arguments, tolerate_warnings
from tfagents_system.core.settings.env_config import load_env_config
from tfagents_system.core.state.paths import ExperimentPaths, existing_experiment
from tfagents_system.core.state.running import is_finished
from tfagents_system.evaluation.saved_experiment import (
    find_checkpoint,
    load_saved_params,
    naming_missing_packages,
    prepare_tensorflow,
)
from tfagents_system.launch.checks.params_check import UNREADABLE
from tfagents_system.records.run_history import read_evaluations

STOP_TIMEOUT_SECS = 240.0  # longest duration of a clean stop; see docs/operation.md
SHOWN_CHARACTERS = 3000  # of the output, in the message of a failure


class TrainingError(Exception):
    """A run has failed; the message has the end of its output."""


class TrainingRun:
    """A run that `train` has started. It stops, and saves, if this process ends."""

    def __init__(
        self, process: subprocess.Popen[bytes], folder: pathlib.Path, output: pathlib.Path
    ):
        """Takes the process of `sac train`.

        Args:
          process: The leader of a session of its own.
          folder: The experiment's folder.
          output: File of the run's status lines and messages.
        """
        self.folder, self.output = folder, output
        self._process = process

    @property
    def is_running(self) -> bool:
        """True until the run has ended."""
        return self._process.poll() is None

    def wait(self, timeout_secs: float | None = None) -> bool:
        """Waits for the end; returns whether it has come within `timeout_secs`.

        Ctrl-C, or the stop button of a notebook, stops the run cleanly.

        Raises:
          ConfigError: If the settings or the environment are wrong.
          TrainingError: If the run has failed.
        """
        try:
            self._process.wait(timeout_secs)
        except subprocess.TimeoutExpired:
            return False
        except KeyboardInterrupt:
            self.stop()
            raise
        self._check()
        return True

    def stop(self) -> None:
        """Stops the run, which saves; the same `train` resumes it. Blocks until it has ended.

        Raises:
          TrainingError: If it does not end cleanly within 240 s.
        """
        if self.is_running:
            self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_SECS)
        except subprocess.TimeoutExpired:
            raise TrainingError(
                f"The run in {self.folder} does not end; its process is {self._process.pid}."
            ) from None
        self._check()

    def _check(self) -> None:
        code = self._process.returncode
        if code in (EXIT_FINISHED, EXIT_STOPPED, -signal.SIGTERM):  # SIGTERM before it has begun
            return
        end = self.output.read_text(errors="replace")[-SHOWN_CHARACTERS:].strip()
        if code == EXIT_CONFIG:
            raise ConfigError(end)
        raise TrainingError(f"sac train ended with exit code {code}:\n{end}")


def train(
    env: str,
    *,
    name: str | None = None,
    seed: int | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    wrap: Sequence[str] = (),
    horizon: int | None = None,
    workers: int | None = None,
    **settings: Any,
) -> TrainingRun:
    """Starts `sac train --env` in separate processes, and returns at once.

    It writes or reuses the project's files in the current folder; the experiment is in `logs/`.
    The run stops when the calling thread ends: call it from the main thread. `wait` raises all
    other errors in the input.

    Args:
      env: For example "Pendulum-v1"; see `sac train --help`.
      name: Name of the experiment. Default: from the environment.
      seed: Seed of everything random.
      env_kwargs: Arguments of the environment's constructor, Python literals.
      wrap: Wrappers, such as "gymnasium.wrappers.FrameStackObservation:4".
      horizon: Env steps of an episode. Default: the environment's limit.
      workers: Number of workers.
      **settings: Hyperparameters, such as num_iter=50.

    Raises:
      ConfigError: If an argument cannot be passed as text to the separate processes.
    """
    if not isinstance(env, str):
        raise ConfigError(
            f"env is {_shown(env)}; expected an id, such as 'Pendulum-v1' or 'my_module:Reach-v0'"
            ", because the run's programs make the environment. sac new writes a params file for "
            "one of your own, and sac train trains it."
        )
    if isinstance(wrap, str):
        raise ConfigError(f"wrap is {wrap!r}; expected a list, such as [{WRAP_EXAMPLE!r}].")
    name = name or slug_of(env)
    command = ["setpriv", "--pdeathsig", "TERM", sys.executable, "-m", "tfagents_system", "train",
               f"--env={env}", f"--name={name}"]  # fmt: skip
    options = {"seed": seed, "horizon": horizon, "workers": workers}
    command += [f"--{key}={value}" for key, value in options.items() if value is not None]
    if env_kwargs:
        command += ["--env_kwargs", *_assignments("env_kwargs", env_kwargs)]
    if wrap:
        command += ["--wrap", *wrap]
    if settings:
        command += ["--set", *_assignments("the hyperparameter", settings)]
    descriptor, output = tempfile.mkstemp(prefix="sac_train_", suffix=".log")
    with open(descriptor, "wb") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file,
            stderr=subprocess.STDOUT, start_new_session=True, **launch_arguments(os.environ),
        )  # fmt: skip
    folder = pathlib.Path.cwd() / "logs" / name
    return TrainingRun(process, folder, pathlib.Path(output))


def _assignments(what: str, values: Mapping[str, Any]) -> list[str]:
    """Returns NAME=VALUE for each; raises ConfigError for a value without a literal."""
    texts = []
    for name, value in values.items():
        text = literal(value)
        try:
            ast.literal_eval(text)
        except UNREADABLE:
            raise ConfigError(
                f"{what} {name} is {_shown(value)}; expected None, numbers, bools and strings, "
                "and lists, tuples, dicts and sets of these."
            ) from None
        texts.append(f"{name}={text}")
    return texts


def _shown(value: Any) -> str:
    return f"{value!r:.80}, of the type {type(value).__name__}"


class Policy:
    """A trained policy's greedy actions.

    `policy(observation)` returns the action, both as the environment has them. `reset` begins an
    episode; only policies with a memory need it.
    """

    def __init__(self, acting_policy: Any, observation_spec: Any):
        """Takes an ActingPolicy, and the spec of what it observes, a nest of ArraySpecs."""
        self._policy, self._spec = acting_policy, observation_spec
        self.reset()

    def reset(self) -> None:
        """Begins an episode."""
        self._state = self._policy.initial_state()
        self._begins = True

    def __call__(self, observation: Any) -> Any:
        """Returns the action for `observation`, an array or a nest of arrays.

        Raises:
          ConfigError: If the observation has other parts or shapes than in training, or NaN.
        """
        from tf_agents.trajectories import time_step as ts

        from tfagents_system.environments.conforming import conforming

        observed = conforming(observation, self._spec)
        # A first step makes networks forget their state.
        step = ts.restart(observed) if self._begins else ts.transition(observed, 0.0)
        action, self._state = self._policy.action(step, self._state)
        self._begins = False
        return action


def load_policy(folder: str | os.PathLike[str], checkpoint: str | None = None) -> Policy:
    """Loads the policy of an experiment, also during training. Takes seconds.

    Args:
      folder: The experiment's folder, such as logs/pendulum.
      checkpoint: For example policy_checkpoint_0000500000, or best. Default: the newest.

    Raises:
      ConfigError: If there is no such policy, or it cannot be loaded.
    """
    paths = existing_experiment(pathlib.Path(folder))
    found = find_checkpoint(paths, checkpoint)
    env_config = load_env_config(paths.config)
    prepare_tensorflow()
    with warnings.catch_warnings():
        tolerate_warnings()
        return _load(paths, found, env_config)


def _load(paths: ExperimentPaths, checkpoint: pathlib.Path, env_config: dict[str, Any]) -> Policy:
    from tfagents_system.environments.closing import closed_at_end
    from tfagents_system.environments.global_generators import kept_generators
    from tfagents_system.evaluation import evaluator

    params = load_saved_params(paths, None, env_config)
    # The environment's seed must not change the caller's generators.
    with naming_missing_packages(paths), kept_generators(None):
        environment = evaluator.make_eval_environment(params, seed=0)
    with closed_at_end(environment):
        policy = evaluator.load_greedy_policy(params, environment, checkpoint)
        seen = without(environment.observation_spec(), params.critic_observations)
        return Policy(policy, seen)


class Experiment:
    """The records of an experiment."""

    def __init__(self, folder: str | os.PathLike[str]):
        """Takes the folder, such as logs/pendulum.

        Raises:
          ConfigError: If it is not an experiment.
        """
        self.paths: ExperimentPaths = existing_experiment(pathlib.Path(folder))

    @property
    def is_finished(self) -> bool:
        """True once training has reached its end."""
        return is_finished(self.paths)

    def curves(self) -> Any:
        """Returns a row for each evaluation so far, as a pandas frame.

        Columns are train_step, env_step, training_secs and mean_return, and success_rate if the
        environment reports success. Without pandas they are lists by name.
        """
        points = read_evaluations(self.paths)
        names = ["train_step", "env_step", "training_secs", "mean_return"]
        if any(point.success_rate is not None for point in points):
            names.append("success_rate")
        columns = {name: [getattr(point, name) for point in points] for name in names}
        if not is_installed("pandas"):
            return columns
        return importlib.import_module("pandas").DataFrame(columns)
