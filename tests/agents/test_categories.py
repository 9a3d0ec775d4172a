"""Observations that are categories."""

import numpy as np
import tensorflow as tf
from tf_agents.specs import tensor_spec

from tfagents_system.data.transition import Transition
from tfagents_system.environments import gym_adapter
from tfagents_system.policies.acting import AgentPolicies, RandomPolicy
from tfagents_system.train_params_base import TrainParamsBase

NUM_STEPS, BATCH = 4000, 256
SHORTEST = 6  # moves from the start to the goal, three down and three to the right


class Params(TrainParamsBase):
    sac_log_alpha = -8.0  # entropy must not be worth more than the goal
    learn_alpha = False
    actor_learning_rate = critic_learning_rate = 3e-3
    target_update_tau = 0.05
    actor_fc_layer_params = critic_joint_fc_layer_params = (64,)

    def env_ctor(self, *args, seed=None, **kwargs):
        return gym_adapter.load("FrozenLake-v1", seed=seed, gym_kwargs={"is_slippery": False})


def test_places_on_ice_are_told_apart_so_that_the_shortest_way_is_learned():
    params = Params({"horizon": 100})
    environment, rng = params.env_ctor(seed=1), np.random.default_rng(1)
    random_policy = RandomPolicy(environment.action_spec(), seed=1)
    steps, actions = [environment.reset()], []
    while len(actions) < NUM_STEPS:
        actions.append(random_policy.action(steps[-1], ())[0])
        steps.append(environment.step(actions[-1]))
    kept = np.flatnonzero([not step.is_last() for step in steps[:-1]])  # after it, actions reset

    def column(values, of=kept):
        return np.stack([values[index] for index in of])

    columns = (
        np.ones(len(kept), np.float32),
        column([step.observation for step in steps]),
        column(actions),
        column([step.reward for step in steps[1:]]),
        column([step.discount for step in steps[1:]]),
        column([step.observation for step in steps[1:]]),
    )
    assert columns[1].dtype == np.int64  # replay has the numbers of places
    tf.random.set_seed(1)
    time_step_spec = tensor_spec.from_spec(environment.time_step_spec())
    action_spec = tensor_spec.from_spec(environment.action_spec())
    agent = params.agent_ctor(
        tf.Variable(0, dtype=tf.int64), time_step_spec.observation, action_spec, time_step_spec
    )
    train = tf.function(agent.train, autograph=False)
    for _ in range(600):
        rows = rng.integers(len(kept), size=BATCH)
        train(Transition(*(tf.constant(values[rows]) for values in columns)))
    greedy, step, num_moves = AgentPolicies(agent, rng).greedy, environment.reset(), 0
    while not step.is_last() and num_moves < SHORTEST:
        step = environment.step(greedy.action(step, ())[0])
        num_moves += 1
    assert (num_moves, float(step.reward), float(step.discount)) == (SHORTEST, 1.0, 0.0)
