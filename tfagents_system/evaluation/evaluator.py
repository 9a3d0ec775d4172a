"""Runs greedy episodes of one policy checkpoint."""

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
from tf_agents.environments import py_environment
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.construction import make_agent
from tfagents_system.collection.info_numbers import InfoNumbers
from tfagents_system.collection.rollouts import run_episode
from tfagents_system.core.process.guest import GUEST
from tfagents_system.core.seeds import derive_seed
from tfagents_system.core.settings.params import Params
from tfagents_system.environments import construction
from tfagents_system.environments.adapter import no_cameras_error
from tfagents_system.environments.global_generators import seed_global_generators
from tfagents_system.environments.guest_environment import as_made
from tfagents_system.evaluation import summary
from tfagents_system.evaluation.progress import EvaluationProgress
from tfagents_system.evaluation.summary import EvaluatedEpisode
from tfagents_system.films.camera import Camera
from tfagents_system.films.window import Window
from tfagents_system.learning.policy_export import restore_policy
from tfagents_system.policies.acting import ActingPolicy, AgentPolicies
from tfagents_system.terminal.lines import Terminal


def make_eval_environment(params: Params, seed: int) -> py_environment.PyEnvironment:
    """Returns the eval environment; everything it may draw from follows from `seed`.

    The constructor gets `seed` itself.

    Raises:
      ConfigError: If `params` makes no environment.
    """
    # For environments that draw from the global generators instead of their own.
    seed_global_generators(functools.partial(derive_seed, seed))
    return construction.make_eval_environment(params, seed)


def choose_camera(environment: py_environment.PyEnvironment, camera: str) -> None:
    """Selects the camera through which the environment renders, by its `set_camera`.

    Raises:
      ConfigError: If it has no cameras to choose from, or not this one.
    """
    set_camera = getattr(environment, "set_camera", None)
    if set_camera is None:
        raise no_cameras_error(type(as_made(environment)).__name__, camera)
    with GUEST.visit("set_camera of the environment"):
        set_camera(camera)


def load_greedy_policy(
    params: Params, environment: py_environment.PyEnvironment, checkpoint: pathlib.Path
) -> ActingPolicy:
    """Returns the greedy policy of the agent that `params` describes, with a checkpoint's weights.

    Raises:
      ConfigError: If the checkpoint is of another network, or cannot be read.
    """
    agent, _ = make_agent(params, environment)
    policies = AgentPolicies(agent, np.random.default_rng(0))  # greedy, so nothing is drawn
    restore_policy(checkpoint, policies.variables)
    policies.update([variable.numpy() for variable in policies.variables])
    return policies.greedy


def run_episodes(
    environment: py_environment.PyEnvironment,
    policy: ActingPolicy,
    horizon: int,
    num_episodes: int,
    video_folder: pathlib.Path | None,
    terminal: Terminal,
    should_stop: Callable[[], bool],
    window: Window | None = None,
    numbers: InfoNumbers | None = None,
) -> list[EvaluatedEpisode]:
    """Runs episodes and prints the table line by line; returns the complete episodes.

    Args:
      environment: Reset for each episode.
      policy: Chooses the actions.
      horizon: Maximum number of env steps of an episode.
      num_episodes: Number of episodes.
      video_folder: Folder of `episode_<index>.mp4`; None: no videos.
      terminal: Prints the table.
      should_stop: Called after each env step; True ends the evaluation.
      window: Shows the episodes; closing it also ends the evaluation.
      numbers: Reads the numbers of `log_info`.

    Raises:
      NotFiniteError: If the policy would act on an observation that is not finite.
    """
    camera = Camera(horizon, video_folder, terminal.print, window=window)
    results: list[EvaluatedEpisode] = []
    terminal.print(summary.HEADER)
    progress = EvaluationProgress(num_episodes, horizon)

    def observe(
        time_step: ts.TimeStep, action: Any, next_time_step: ts.TimeStep, state: Any
    ) -> bool:
        camera.observe(next_time_step)
        progress.step(float(next_time_step.reward))
        terminal.show(progress.line)
        return not (should_stop() or (window is not None and window.is_closed))

    for index in range(num_episodes):
        camera.begin(f"episode_{index}", environment)
        try:
            episode = run_episode(environment, policy, horizon, observe, numbers=numbers)
            if not episode.is_complete:
                break
            if episode.success_fault and not any(r.episode.success_fault for r in results):
                terminal.print(f"{episode.success_fault}.")
            for fault in episode.info_faults:
                terminal.print(fault.text)
            results.append(EvaluatedEpisode(index, episode, camera.end()))
            progress.end_episode()
        finally:
            camera.discard()  # a finished film stays
        has_been_seen = any(result.episode.success is not None for result in results)
        terminal.print(summary.row(results[-1], has_been_seen))
    return results
