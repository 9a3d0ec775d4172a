"""ML-Agents' reference tasks for imitation are learned from demonstrations, without rewards."""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.trajectories import time_step

from tfagents_system.assembly import assemble
from tfagents_system.data.transition import Transition
from tfagents_system.environments.gym_adapter import GymEnvironment
from tfagents_system.tasks.simple import Simple
from tfagents_system.train_params_base import TrainParamsBase

HORIZON, ENV_STEPS, BATCH = 50, 500, 32
ALL_GOALS = np.float32([-1, 1])
SIDE = 20  # of images


class Params(TrainParamsBase):
    """The reference's settings, but for a larger minibatch."""

    actor_fc_layer_params = critic_joint_fc_layer_params = (16,)
    actor_learning_rate = critic_learning_rate = alpha_learning_rate = 5e-3
    sac_log_alpha = -4.6
    target_update_tau = 0.01
    matmul_precision = "float32"
    demonstrations = "given by the test"
    reward_signals = {"gail": {"encoding_size": 32, "use_actions": True, "learning_rate": 3e-3}}

    def env_ctor(self, *args, seed=None, **kwargs):
        return GymEnvironment(task_of(self.env_config["num_cameras"]), seed)


def task_of(num_cameras):
    return Simple(num_continuous=0, num_discrete=1, num_cameras=num_cameras, side=SIDE)


def observations(goals, num_cameras):
    """Observations of the task for goals [B]: the goals, or images of them."""
    shape = (SIDE, SIDE, 3) if num_cameras else (1,)
    column = tf.reshape(goals, [-1] + [1] * len(shape))
    return tf.tile(column, (1, *shape))


def transition(goal, action, discount, num_cameras):
    zeros, seen = tf.zeros_like(discount), observations(goal, num_cameras)
    return Transition(zeros + 1, seen, action, zeros, discount, seen)


def draws_of_expert(rng, num_cameras):
    """20 episodes of 5 steps towards the goal."""
    goals = np.repeat(rng.choice(np.float32([-1, 1]), 20), 5)
    discounts = np.float32(np.arange(100) % 5 != 4)
    everything = transition(goals, np.int64(goals > 0), tf.constant(discounts), num_cameras)

    def draw(count):
        chosen = tf.random.uniform([count], maxval=100, dtype=tf.int32)
        return tf.nest.map_structure(lambda leaf: tf.gather(leaf, chosen), everything)

    return draw


def greedy_actions_after_training(seed, num_cameras, cloning=None):
    """The greedy actions at both goals, after `ENV_STEPS` env steps with a train step each."""
    tf.keras.utils.set_random_seed(seed)
    rng = np.random.default_rng(seed)
    params = Params({"horizon": HORIZON, "num_cameras": num_cameras})
    params.behavioral_cloning = cloning
    made = assemble(params, params.env_ctor())
    draw = draws_of_expert(rng, num_cameras)
    made.streams.imitate(draw)
    if cloning:
        made.agent.cloning.imitate(draw)

    @tf.function
    def train(goals, actions, discounts):
        batch = transition(goals, actions, discounts, num_cameras)
        made.agent.train(made.streams(batch)[0])
        if cloning:
            made.agent.cloning()

    @tf.function
    def logits_of_all_goals():
        steps = time_step.restart(observations(ALL_GOALS, num_cameras), len(ALL_GOALS))
        return made.agent.collect_policy.distribution(steps).action.logits

    task = task_of(num_cameras)
    task.seed(seed)
    task.reset()
    num_steps, rows = 0, []
    for _ in range(ENV_STEPS):
        goal, logits = task.goal, logits_of_all_goals().numpy()[int(task.goal > 0)]
        chances = np.exp(logits - logits.max())
        action = int(rng.choice(2, p=chances / chances.sum()))
        _, _, is_over, _ = task.step(action)
        num_steps += 1
        rows.append((goal, action, 1 - is_over))
        if is_over or num_steps == HORIZON:
            task.reset()
            num_steps = 0
        if len(rows) >= BATCH:
            drawn = np.array(rows)[rng.integers(len(rows), size=BATCH)]
            goals, actions, discounts = drawn.T
            train(
                tf.constant(goals, tf.float32),
                tf.constant(actions, tf.int64),
                tf.constant(discounts, tf.float32),
            )
    return logits_of_all_goals().numpy().argmax(axis=-1).tolist()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("num_cameras", [0, 1])
@pytest.mark.parametrize("cloning", [None, {"strength": 1.0, "steps": 1000}])
def test_it_is_imitated_in_500_env_steps(num_cameras, cloning):
    reached = [greedy_actions_after_training(seed, num_cameras, cloning) for seed in range(1, 6)]
    assert reached == [[0, 1]] * 5
