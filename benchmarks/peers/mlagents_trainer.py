"""Trains a task by ML-Agents' own SAC trainer, and prints the training episodes as JSON.

Example: benchmarks/.venv-mlagents/bin/python -m benchmarks.peers.mlagents_trainer \
--task continuous --seed 1
One process steps the environment and updates in turns, without checkpoints and summaries.
"""

import json
import logging
import pathlib
import tempfile

from benchmarks import program
from benchmarks.ours.simple_budgets import IMITATED
from benchmarks.peers import mlagents_messages
from benchmarks.peers.mlagents_settings import BUILDS, SIMPLE, configuration_of
from tfagents_system.core.process.ports import free_port

mlagents_messages.prepare()

import mlagents.trainers.learn  # noqa: E402, F401  (registers the trainers)
from mlagents.plugins.trainer_type import register_trainer_plugins  # noqa: E402
from mlagents.trainers.environment_parameter_manager import (  # noqa: E402
    EnvironmentParameterManager,
)
from mlagents.trainers.settings import RunOptions  # noqa: E402
from mlagents.trainers.simple_env_manager import SimpleEnvManager  # noqa: E402
from mlagents.trainers.trainer import TrainerFactory  # noqa: E402
from mlagents.trainers.trainer_controller import TrainerController  # noqa: E402
from mlagents_envs import logging_util  # noqa: E402
from mlagents_envs.base_env import BaseEnv  # noqa: E402
from mlagents_envs.environment import UnityEnvironment  # noqa: E402
from mlagents_envs.side_channel.environment_parameters_channel import (  # noqa: E402
    EnvironmentParametersChannel,
)

from benchmarks.peers.mlagents_environments import Recorded, SimpleEnv  # noqa: E402


def train(environment: BaseEnv, channel: EnvironmentParametersChannel, task: str, seed: int,
          max_steps: int | None, demonstrations: pathlib.Path | None) -> None:  # fmt: skip
    """Trains for `max_steps` env steps, or for those of the configuration."""
    register_trainer_plugins()
    options = RunOptions.from_dict(configuration_of(task, demonstrations))
    for settings in options.behaviors.values():
        settings.max_steps = max_steps or settings.max_steps
    parameters = EnvironmentParameterManager()
    with tempfile.TemporaryDirectory() as folder:
        factory = TrainerFactory(
            trainer_config=options.behaviors, output_path=folder, train_model=True,
            load_model=False, seed=seed, param_manager=parameters,
        )  # fmt: skip
        controller = TrainerController(factory, folder, task, parameters, True, seed)
        controller._save_models = lambda: None  # needs another package, and takes time
        controller.start_learning(SimpleEnvManager(environment, channel))


def main(
    task: str,
    seed: int,
    build: pathlib.Path | None = None,
    max_steps: int | None = None,
    demonstrations: pathlib.Path | None = None,
) -> None:
    """Trains, and prints the episodes: env step of the end, return and time of each.

    Args:
      task: A small task, or one of the build.
      seed: Seed of trainer and environment.
      build: Path of the build, if the task is one of it.
      max_steps: Env steps, if they are not those of the configuration.
      demonstrations: The .demo file for a task that is imitated.
    """
    logging_util.set_log_level(logging.ERROR)
    channel = EnvironmentParametersChannel()
    if build is None:
        environment: BaseEnv = SimpleEnv(IMITATED.get(task, task), SIMPLE, seed)
    else:
        environment = UnityEnvironment(
            str(build), base_port=free_port(), seed=seed, no_graphics=True, side_channels=[channel],
            additional_args=["--task", task, "--agents", str(BUILDS[task].num_agents)],
        )  # fmt: skip
    recorded = Recorded(environment)
    train(recorded, channel, task, seed, max_steps, demonstrations)
    recorded.close()
    print(json.dumps({"env_steps": recorded.num_steps, "episodes": recorded.episodes}), flush=True)


if __name__ == "__main__":
    program.run(main)
