"""Small registered environments, one of each adapter."""

from tfagents_system.environments import dm_control_adapter, gym_adapter, gymnasium_adapter


def gymnasium_pendulum():
    return gymnasium_adapter.load("Pendulum-v1", seed=1)


def gym_pendulum():
    return gym_adapter.load("Pendulum-v1", seed=1)


def dm_control_cartpole():
    return dm_control_adapter.load("cartpole", "swingup", seed=1)


ONE_OF_EACH = (gymnasium_pendulum, dm_control_cartpole, gym_pendulum)
