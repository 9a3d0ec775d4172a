"""Loads the tasks by name: `partial.load("pendulum-p", seed=seed)` in a params file.

Source: Yang and Nguyen 2021, Recurrent Off-policy Baselines for Memory-based Continuous Control,
arXiv:2110.12628; docs/partial_observation.md lists the differences.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import gym
from tf_agents.environments import py_environment

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.names import did_you_mean
from tfagents_system.environments import gym_adapter, gymnasium_adapter, pybullet_adapter
from tfagents_system.environments.partial_observation import (
    FirstObservationOnly,
    KeepObservations,
    LastAction,
    ObservationStack,
)
from tfagents_system.tasks.car_flag import CarFlag
from tfagents_system.tasks.cart_pole import ContinuousCartPole
from tfagents_system.tasks.control_suite import Pixels, repeated
from tfagents_system.tasks.pendulum import VariableLengthPendulum
from tfagents_system.tasks.push_bump import PushRightBump
from tfagents_system.tasks.water_maze import DenseWaterMaze, SimpleWaterMaze, WaterMaze

Environment: TypeAlias = py_environment.PyEnvironment
Make = Callable[[int | None], Environment]  # takes a seed >= 0; None draws one from the system
_WALKER = range(8)  # height, direction, velocity and tilt of the body, as PyBullet orders them


class Task(NamedTuple):
    """A task: its constructor and properties."""

    make: Make
    horizon: int  # env steps, its time limit
    observes_image: bool = False


def load(name: str, seed: int | None = None) -> Environment:
    """Returns a task.

    Args:
      name: A key of TASKS.
      seed: Seed of everything random in it, >= 0; None draws one from the system.

    Raises:
      ConfigError: If there is no such task, or its package is missing.
    """
    return find(name).make(seed)


def find(name: str) -> Task:
    """Returns the row of TASKS; raises ConfigError, with the nearest name, if there is none."""
    if name not in TASKS:
        text, tasks = f"partial:{name}", [f"partial:{task}" for task in TASKS]
        raise ConfigError(f"There is no task {text}.{did_you_mean(text, tasks)}")
    return TASKS[name]


def _own(cls: type[gym.Env], horizon: int) -> Make:
    def make(seed: int | None) -> Environment:
        return gym_adapter.GymEnvironment(gym.wrappers.TimeLimit(cls(), horizon), seed=seed)

    return make


def _pendulum(seed: int | None) -> Environment:
    return gym_adapter.load("Pendulum-v1", seed=seed)


def _pybullet(name: str) -> Make:
    return lambda seed: pybullet_adapter.load(name, seed=seed)


def _reacher(seed: int | None) -> Environment:
    reacher = gymnasium_adapter.load("Reacher-v5", seed=seed)
    return LastAction(FirstObservationOnly(reacher, [4, 5, 8, 9]))  # goal; fingertip - goal


def _keep(make: Make, indices: Sequence[int]) -> Make:
    return lambda seed: KeepObservations(make(seed), indices)


def _with_action(make: Make) -> Make:
    return lambda seed: LastAction(make(seed))


def _stack(make: Make, k: int) -> Make:
    return lambda seed: ObservationStack(make(seed), k)


def _pixels(make: Make) -> Make:
    return lambda seed: Pixels(make(seed))


_pendulum_p = _keep(_pendulum, [0, 1])
_pendulum_v = _keep(_pendulum, [2])
_pendulum_va = _with_action(_pendulum_v)
_any_pendulum = _own(VariableLengthPendulum, 200)
_cart_pole = _own(ContinuousCartPole, 1000)
_simple_maze, _maze = _own(SimpleWaterMaze, 200), _own(WaterMaze, 200)
_dense_maze = _own(DenseWaterMaze, 200)
_balance, _swingup = repeated("cartpole", "balance", 5), repeated("cartpole", "swingup", 5)
_balance_p, _swingup_p = (_keep(make, [0, 1, 2]) for make in (_balance, _swingup))
_balance_va, _swingup_va = (_with_action(_keep(make, [3, 4])) for make in (_balance, _swingup))

TASKS: dict[str, Task] = {
    "pendulum-p": Task(_pendulum_p, 200),
    "pendulum-v": Task(_pendulum_v, 200),
    "pendulum-va": Task(_pendulum_va, 200),
    "pendulum-p-concat5": Task(_stack(_pendulum_p, 5), 200),
    "pendulum-v-concat10": Task(_stack(_pendulum_v, 10), 200),
    "pendulum-va-concat10": Task(_stack(_pendulum_va, 10), 200),
    "pendulum-var-len-pvl": Task(_any_pendulum, 200),
    "pendulum-var-len-pv": Task(_keep(_any_pendulum, [0, 1, 2]), 200),
    "pendulum-var-len-pl": Task(_keep(_any_pendulum, [0, 1, 3]), 200),
    "pendulum-var-len-pa": Task(_with_action(_keep(_any_pendulum, [0, 1])), 200),
    "cartpole-continuous-long": Task(_cart_pole, 1000),
    "cartpole-continuous-long-p": Task(_keep(_cart_pole, [0, 2]), 1000),
    "cartpole-continuous-long-v": Task(_keep(_cart_pole, [1, 3]), 1000),
    "cartpole-balance": Task(_balance, 200),
    "cartpole-balance-p": Task(_balance_p, 200),
    "cartpole-balance-va": Task(_balance_va, 200),
    "cartpole-balance-p-concat5": Task(_stack(_balance_p, 5), 200),
    "cartpole-balance-va-concat10": Task(_stack(_balance_va, 10), 200),
    "cartpole-balance-pixels": Task(_pixels(repeated("cartpole", "balance", 2)), 500, True),
    "cartpole-swingup": Task(_swingup, 200),
    "cartpole-swingup-p": Task(_swingup_p, 200),
    "cartpole-swingup-va": Task(_swingup_va, 200),
    "cartpole-swingup-p-concat5": Task(_stack(_swingup_p, 5), 200),
    "cartpole-swingup-va-concat10": Task(_stack(_swingup_va, 10), 200),
    "walker-walk-pixels": Task(_pixels(repeated("walker", "walk", 2)), 500, True),
    # PyBullet's walkers: positions of the joints, which alternate with velocities; the feet.
    "half-cheetah-p": Task(
        _keep(_pybullet("HalfCheetahBulletEnv-v0"), [*_WALKER, *range(8, 20, 2), *range(20, 26)]),
        1000,
    ),
    "ant-p": Task(
        _keep(_pybullet("AntBulletEnv-v0"), [*_WALKER, *range(8, 24, 2), *range(24, 28)]), 1000
    ),
    "reacher-pomdp": Task(_reacher, 50),
    "water-maze-simple": Task(_keep(_simple_maze, [0, 1, 2]), 200),
    "water-maze-simple-mdp": Task(_simple_maze, 200),
    "water-maze": Task(_keep(_maze, [0, 1, 2]), 200),
    "water-maze-dense": Task(_keep(_dense_maze, [0, 1, 2]), 200),
    "car-flag": Task(_own(CarFlag, CarFlag.horizon), CarFlag.horizon),
    "push-r-bump": Task(_own(PushRightBump, 50), 50),
}
