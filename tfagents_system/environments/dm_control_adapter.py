"""Adapts environments of dm_control, an optional package."""

import difflib
import math
from collections.abc import Iterator, Mapping
from typing import Any

import gym
import numpy as np
from numpy.typing import NDArray
from tf_agents.trajectories import time_step as ts
from tf_agents.typing import types

from tfagents_system.core.checkout import how_to_install
from tfagents_system.core.errors import ConfigError
from tfagents_system.environments import adapter, headless, rendering

FRAME_HEIGHT, FRAME_WIDTH = 240, 320  # pixels; take the software renderer 0.1 s


class DmControlEnvironment(adapter.EnvironmentAdapter):
    """Adapts an environment of dm_control.

    An episode that ends with discount 0 has terminated; any other end is a time limit, even a
    termination at the last step of the limit, which dm_control does not report. Discounts within an
    episode count as 1.
    """

    def __init__(
        self,
        env: Any,
        seed: int | None = None,
        flatten_observation: bool = True,
        camera: str | None = None,
    ):
        """Wraps `env`; see the base class.

        Args:
          env: An environment of dm_control.
          seed: Seed of the task's random numbers, >= 0; None leaves them unseeded.
          flatten_observation: Whether to join the parts of the observation, in dm_control's
            order, to one float32 vector, which the workers' NumPy policy needs; otherwise a dict.
          camera: See `set_camera`.

        Raises:
          ConfigError: Also if an observation to flatten has images, or there is no such camera.
        """
        self._flattens = flatten_observation
        self._camera = 0
        super().__init__(_GymView(env, flatten_observation), seed)
        if camera is not None:
            self.set_camera(camera)

    @property
    def dt(self) -> float:
        """Seconds per env step, for films and windows."""
        return self._env.env.control_timestep()

    @property
    def horizon(self) -> int | None:
        """The time limit in env steps; None for no limit."""
        limit = getattr(self._env.env, "_step_limit", math.inf)
        return None if math.isinf(limit) else math.ceil(limit)

    def seed(self, seed: int) -> int:
        """Seeds the task, with `seed` >= 0, from the next reset on. Returns the seed."""
        env = self._env.env
        for owner, name in ((getattr(env, "task", None), "random"), (env, "random_state")):
            generator = getattr(owner, name, None)
            if isinstance(generator, np.random.Generator):
                bits = generator.bit_generator
                bits.state = type(bits)(int(seed)).state
                break
            if callable(reseed := getattr(generator, "seed", None)):
                reseed(int(seed))
                break
        return int(seed)

    def set_camera(self, camera: str) -> None:
        """Selects the camera of `render` by id or name; the default is 0.

        -1 is the free camera.

        Raises:
          ConfigError: If there is no such camera.
        """
        if getattr(self._env.env, "physics", None) is None:
            raise adapter.no_cameras_error(self._owner, camera)
        model = self._env.env.physics.model
        names = [model.id2name(number, "camera") for number in range(model.ncam)]
        self._camera = adapter.mujoco_camera(camera, names, self._owner)

    def render(self, mode: str = "rgb_array", camera: int | str | None = None) -> NDArray[np.uint8]:
        """Returns a frame [240, 320, 3] uint8; needs a reset before.

        Args:
          mode: "rgb_array".
          camera: Id or name of a camera of the model; None is the camera of `set_camera`.

        Raises:
          ConfigError: For another mode (use dm_control.viewer), or if MuJoCo cannot draw.
        """
        if mode != "rgb_array":
            raise ConfigError(
                f"{self._owner} cannot render {mode!r}: expected 'rgb_array'. For a window use "
                "dm_control.viewer."
            )
        physics = getattr(self._env.env, "physics", None)
        if physics is None:
            raise ConfigError(
                f"{self._owner} has no physics of MuJoCo, which films are drawn from."
            )
        headless.check_can_render(self._owner)
        camera_id = self._camera if camera is None else camera
        frame = physics.render(FRAME_HEIGHT, FRAME_WIDTH, camera_id=camera_id)
        return rendering.as_frame(frame, self._owner)

    def _reset(self) -> ts.TimeStep:
        return self._first(self._observation(self._env.env.reset()))

    def _step(self, action: types.NestedArray) -> ts.TimeStep:
        time_step = self._env.env.step(self._cast_action(action))
        observation = self._observation(time_step)
        if time_step.last():
            return self._last(observation, time_step.reward, time_step.discount == 0.0)
        return self._mid(observation, time_step.reward)

    def _layers(self) -> tuple[Any, ...]:
        return self._env.env, self._env.unwrapped

    def _observation(self, time_step: Any) -> Any:
        observation = time_step.observation
        return _flat(observation) if self._flattens else observation


class _GymView:
    """Presents an environment of dm_control in gym's interface, for the base class."""

    def __init__(self, env: Any, flatten_observation: bool):
        adapter.check_has(
            env, type(env).__name__, ("reset", "step", "observation_spec", "action_spec")
        )
        self.env = env
        task = getattr(env, "task", None)  # the user knows its class, unless `env` is a task
        self.unwrapped = env if task is None or isinstance(task, str) else task
        self.action_space = _space(env.action_spec())
        observation_spec = env.observation_spec()
        self.observation_space = _space(observation_spec)
        if flatten_observation:
            parts = list(_leaves(observation_spec))
            if any(part.dtype == np.uint8 and len(part.shape) > 1 for part in parts):
                raise ConfigError(
                    f"{type(self.unwrapped).__name__} observes images, which cannot be flattened "
                    "into one vector. Set flatten_observation=False."
                )
            size = sum(math.prod(part.shape) for part in parts)
            self.observation_space = gym.spaces.Box(-np.inf, np.inf, (size,), np.float32)

    def close(self) -> None:
        if callable(close := getattr(self.env, "close", None)):
            close()

    def reset(self) -> Any:
        return self.env.reset()

    def step(self, action: Any) -> Any:
        return self.env.step(action)


def load(
    domain: str,
    task: str,
    seed: int | None = None,
    task_kwargs: Mapping[str, Any] | None = None,
    environment_kwargs: Mapping[str, Any] | None = None,
    flatten_observation: bool = True,
    camera: str | None = None,
) -> DmControlEnvironment:
    """Returns a task of the DeepMind Control Suite as a PyEnvironment.

    Without a display it renders with the choice of `headless.choose_renderer`.

    Args:
      domain: For example "cheetah".
      task: For example "run".
      seed: Seed of the task's random numbers, >= 0; None draws one from the system.
      task_kwargs: Keyword arguments of the task, such as `time_limit` in seconds.
      environment_kwargs: Keyword arguments of the environment, such as `n_sub_steps`.
      flatten_observation: See `DmControlEnvironment`.
      camera: See `DmControlEnvironment.set_camera`.

    Raises:
      ConfigError: If dm_control is not installed, there is no such task, or it rejects an argument.
    """
    suite = _import_suite()
    names = [f"{known_domain}/{known_task}" for known_domain, known_task in suite.ALL_TASKS]
    if f"{domain}/{task}" not in names:
        nearest = ", ".join(difflib.get_close_matches(f"{domain}/{task}", names, cutoff=0.5))
        hint = f" Nearest: {nearest}." if nearest else ""
        raise ConfigError(f"dm_control has no task {domain}/{task} among its {len(names)}.{hint}")
    kwargs = {"random": seed, **(task_kwargs or {})}
    try:
        env = suite.load(domain, task, kwargs, environment_kwargs and dict(environment_kwargs))
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"Cannot make {domain}/{task} with task_kwargs={dict(task_kwargs or {})} and "
            f"environment_kwargs={environment_kwargs}: {error}"
        ) from error
    return DmControlEnvironment(env, flatten_observation=flatten_observation, camera=camera)


def _import_suite() -> Any:
    headless.choose_renderer()  # dm_control reads it when it is imported
    try:
        from dm_control import suite
    except ImportError as error:
        raise ConfigError(
            f"dm_control_adapter needs the package dm_control ({error}): "
            f"{how_to_install('dm_control')}"
        ) from error
    return suite


def _space(spec: Any) -> gym.spaces.Space:
    """Returns the gym space of a dm_env spec."""
    if isinstance(spec, Mapping):
        return gym.spaces.Dict([(key, _space(child)) for key, child in spec.items()])
    kind = np.dtype(spec.dtype)
    is_float = kind.kind == "f"
    everything = (-np.inf, np.inf) if is_float else _limits(kind)
    low = np.broadcast_to(getattr(spec, "minimum", everything[0]), spec.shape)
    high = np.broadcast_to(getattr(spec, "maximum", everything[1]), spec.shape)
    return gym.spaces.Box(low.astype(kind), high.astype(kind), spec.shape, kind)


def _limits(kind: np.dtype[Any]) -> tuple[int, int]:
    if kind.kind == "b":
        return 0, 1
    return np.iinfo(kind).min, np.iinfo(kind).max


def _flat(observation: Any) -> NDArray[Any]:
    """Joins all numbers of an observation to one vector, in the order of its parts."""
    return np.concatenate([np.ravel(leaf) for leaf in _leaves(observation)])


def _leaves(nest: Any) -> Iterator[Any]:
    if not isinstance(nest, Mapping):
        yield nest
        return
    for child in nest.values():
        yield from _leaves(child)
