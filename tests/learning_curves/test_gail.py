"""ML-Agents' reference task for imitation is learned from demonstrations, without its reward."""

import numpy as np
import pytest
import tensorflow as tf

from tfagents_system.assembly import assemble
from tfagents_system.data.transition import Transition
from tfagents_system.environments.gym_adapter import GymEnvironment
from tfagents_system.tasks.simple import Simple
from tfagents_system.train_params_base import TrainParamsBase

HORIZON, ENV_STEPS, BATCH = 50, 500, 32
ALL_GOALS = np.float32([[-1], [1]])


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
        return GymEnvironment(Simple(num_continuous=0, num_discrete=1), seed)


def transition(goal, action, discount):
    zeros = tf.zeros_like(discount)
    return Transition(zeros + 1, goal, action, zeros, discount, goal)


def draws_of_expert(rng):
    """20 episodes of 5 steps towards the goal."""
    goals = np.repeat(rng.choice(np.float32([-1, 1]), 20), 5)
    discounts = np.float32(np.arange(100) % 5 != 4)
    everything = transition(goals[:, np.newaxis], np.int64(goals > 0), tf.constant(discounts))

    def draw(count):
        chosen = tf.random.uniform([count], maxval=100, dtype=tf.int32)
        return tf.nest.map_structure(lambda leaf: tf.gather(leaf, chosen), everything)

    return draw


def greedy_actions_after_training(seed):
    """The greedy actions at both goals, after `ENV_STEPS` env steps with a train step each."""
    tf.keras.utils.set_random_seed(seed)
    rng = np.random.default_rng(seed)
    params = Params({"horizon": HORIZON})
    made = assemble(params, params.env_ctor())
    made.streams.imitate(draws_of_expert(rng))

    @tf.function(jit_compile=True)
    def train(goal, action, discount):
        made.agent.train(made.streams(transition(goal, action, discount))[0])

    @tf.function
    def logits_of_all_goals():
        return made.agent.networks.actor(ALL_GOALS)[0].logits

    task = Simple(num_continuous=0, num_discrete=1)
    task.seed(seed)
    goal, num_steps = float(task.reset()[0]), 0
    rows = []
    for _ in range(ENV_STEPS):
        logits = logits_of_all_goals().numpy()[int(goal > 0)]
        chances = np.exp(logits - logits.max())
        action = int(rng.choice(2, p=chances / chances.sum()))
        _, _, is_over, _ = task.step(action)
        num_steps += 1
        rows.append((goal, action, 1 - is_over))
        if is_over or num_steps == HORIZON:
            goal, num_steps = float(task.reset()[0]), 0
        if len(rows) >= BATCH:
            drawn = np.array(rows)[rng.integers(len(rows), size=BATCH)]
            goals, actions, discounts = drawn.T
            train(
                tf.constant(goals[:, np.newaxis], tf.float32),
                tf.constant(actions, tf.int64),
                tf.constant(discounts, tf.float32),
            )
    return logits_of_all_goals().numpy().argmax(axis=-1).tolist()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_it_is_imitated_in_500_env_steps():
    assert [greedy_actions_after_training(seed) for seed in range(1, 6)] == [[0, 1]] * 5
