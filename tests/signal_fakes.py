"""A reward signal whose numbers can be computed by hand, and a minibatch for it."""

import tensorflow as tf

from tfagents_system.data.transition import Transition


class Novelty(tf.Module):
    """Pays the squared error of a learned mean of the observations."""

    def __init__(self, name="novelty", strength=2.0):
        super().__init__(name=name)
        self.strength = strength
        self.mean = tf.Variable(0.0, name="mean")

    def reward(self, transition):
        return tf.square(transition.next_observation[..., 0] - self.mean)

    def train(self, transition):
        error = tf.reduce_mean(transition.next_observation) - self.mean
        self.mean.assign_add(0.5 * error)
        return {"loss": tf.square(error)}


def minibatch():
    zeros, column = tf.zeros([2]), tf.constant([[1.0], [3.0]])
    return Transition(zeros, column, column, tf.constant([10.0, 20.0]), zeros, column)
