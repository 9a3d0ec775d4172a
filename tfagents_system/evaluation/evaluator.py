"""Runs greedy episodes of one policy checkpoint."""

import functools
import math
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tf_agents.environments import py_environment
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.construction import make_agent
from tfagents_system.collection.first_episodes import run_first_episodes
from tfagents_system.collection.info_numbers import InfoNumbers
from tfagents_system.collection.rollouts import Episode, run_episode
from tfagents_system.collection.slot_environments import SimulatorSlots, num_slots_of
from tfagents_system.core.process.guest import GUEST
from tfagents_system.core.process.watchdog import Watchdog
from tfagents_system.core.seeds import derive_seed
from tfagents_system.core.settings.params import Params
from tfagents_system.environments import construction
from tfagents_system.environments.adapter import no_cameras_error
from tfagents_system.environments.global_generators import seed_global_generators
from tfagents_system.environments.guest_environment import as_made
from tfagents_system.environments.replaceable import EnvironmentFailure, ReplaceableEnvironment
from tfagents_system.evaluation import summary
from tfagents_system.evaluation.progress import EvaluationProgress
from tfagents_system.evaluation.summary import EvaluatedEpisode
from tfagents_system.films.camera import Camera
from tfagents_system.films.window import Window
from tfagents_system.learning.policy_export import restore_policy
from tfagents_system.policies.acting import AgentPolicies, SlotPolicy
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
      ConfigError: If it has no choice of cameras, or lacks this one.
    """
    set_camera = getattr(environment, "set_camera", None)
    if set_camera is None:
        raise no_cameras_error(type(as_made(environment)).__name__, camera)
    with GUEST.visit("set_camera of the environment"):
        set_camera(camera)


class SavedPolicies:
    """The greedy policies of checkpoints, of the agent that `params` describes.

    The first `load` reads all of them, because a run in training may replace its best policy
    before an evaluation reaches it.
    """

    def __init__(self, params: Params, checkpoints: Sequence[pathlib.Path]):
        """Reads nothing yet."""
        self._params, self._checkpoints = params, checkpoints
        self._values: dict[pathlib.Path, list[NDArray[Any]]] = {}

    def load(
        self, environment: py_environment.PyEnvironment, checkpoint: pathlib.Path
    ) -> SlotPolicy:
        """Returns the policy of one of the checkpoints.

        Raises:
          ConfigError: If a checkpoint is of another network, or cannot be read.
        """
        agent, _ = make_agent(self._params, environment)
        policies = AgentPolicies(agent, np.random.default_rng(0))  # greedy, so nothing is drawn
        if not self._values:
            for each in self._checkpoints:
                restore_policy(each, policies.variables)
                self._values[each] = [variable.numpy() for variable in policies.variables]
        policies.update(self._values[checkpoint])
        return policies.greedy


def load_greedy_policy(
    params: Params, environment: py_environment.PyEnvironment, checkpoint: pathlib.Path
) -> SlotPolicy:
    """Returns the greedy policy of one checkpoint; see SavedPolicies."""
    return SavedPolicies(params, [checkpoint]).load(environment, checkpoint)


def run_episodes(
    environment: py_environment.PyEnvironment,
    policy: SlotPolicy,
    horizon: int,
    num_episodes: int,
    video_folder: pathlib.Path | None,
    terminal: Terminal,
    should_stop: Callable[[], bool],
    window: Window | None = None,
    numbers: InfoNumbers | None = None,
    keep: Callable[[Sequence[EvaluatedEpisode]], object] | None = None,
) -> list[EvaluatedEpisode]:
    """Runs episodes and prints the table line by line; returns the complete episodes.

    In a simulator with several slots all of them act, and the first episode of each counts, as
    `run_first_episodes` says; films and the window show the first slot.

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
      keep: Called with the complete episodes so far, when there are more.

    Raises:
      InvalidArrayError: If the policy would act on an observation that is not finite.
    """
    camera = Camera(horizon, video_folder, terminal.print, window=window)
    results: list[EvaluatedEpisode] = []
    terminal.print(summary.HEADER)
    progress = EvaluationProgress(num_episodes, horizon)

    def goes_on() -> bool:
        return not (should_stop() or (window is not None and window.is_closed))

    def observe(
        time_step: ts.TimeStep, action: Any, next_time_step: ts.TimeStep, state: Any
    ) -> bool:
        camera.observe(next_time_step)
        progress.step(float(next_time_step.reward))
        terminal.show(progress.line)
        return goes_on()

    num_at_once = num_slots_of(environment)
    while len(results) < num_episodes:
        camera.begin(f"episode_{len(results)}", environment)
        try:
            if num_at_once > 1:
                num_left = min(num_at_once, num_episodes - len(results))
                log_info = numbers.log_info if numbers else ()
                episodes = _first_episodes(
                    environment, policy, horizon, num_left, observe, goes_on, log_info
                )
            else:
                episode = run_episode(environment, policy, horizon, observe, numbers=numbers)
                episodes = [episode] if episode.is_complete else []
            video = camera.end() if episodes else None
        finally:
            camera.discard()  # a finished film stays
        if not episodes:
            break
        for episode in episodes:
            progress.end_episode()
            if episode.success_fault and not any(r.episode.success_fault for r in results):
                terminal.print(f"{episode.success_fault}.")
            for fault in episode.info_faults:
                terminal.print(fault.text)
            results.append(EvaluatedEpisode(len(results), episode, video))
            has_been_seen = any(result.episode.success is not None for result in results)
            terminal.print(summary.row(results[-1], has_been_seen))
            video = None
        if keep is not None:
            keep(results)
    return results


def _first_episodes(
    environment: py_environment.PyEnvironment,
    policy: SlotPolicy,
    horizon: int,
    num_episodes: int,
    observe: Callable[[ts.TimeStep, Any, ts.TimeStep, Any], object],
    goes_on: Callable[[], bool],
    log_info: Sequence[str],
) -> list[Episode]:
    """Runs the first episodes of the slots of a simulator; `observe` is told of slot 0."""

    def observe_first(
        slot: int, time_step: ts.TimeStep, action: Any, next_time_step: ts.TimeStep
    ) -> None:
        if slot == 0:
            observe(time_step, action, next_time_step, ())

    slots = SimulatorSlots(ReplaceableEnvironment(environment, _no_other, _Unwatched(math.inf)))
    try:
        return run_first_episodes(
            slots, policy, horizon, num_episodes, observe_first, goes_on, log_info
        )
    except EnvironmentFailure as failure:  # it is not replaced
        raise failure.__cause__ or failure from None


def _no_other(num_failures: int) -> py_environment.PyEnvironment:
    raise AssertionError("a failure ends the evaluation")


class _Unwatched(Watchdog):
    """Waits for slow environments without limit: a person may end the evaluation."""

    def feed(self, times: float = 1) -> None:
        """Does nothing."""
