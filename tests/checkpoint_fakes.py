"""A replay server that writes checkpoints, or fails as a test says, and who asks it to."""

import pathlib
import shutil
import threading

import numpy as np
import tensorflow as tf
from fakes import UNRIVALLED

from tfagents_system.data.transition import Transition
from tfagents_system.learning.checkpoints import Checkpointer


class FakeReplay:
    """Writes checkpoints as the replay server does, or fails as `failure` says."""

    files = ("items.tfrecord", "DONE")

    def __init__(self, root: pathlib.Path):
        self._root = root
        self._count = 0
        self.failure = None
        self.may_finish = threading.Event()
        self.may_finish.set()

    def checkpoint(self):
        self._count += 1
        path = self._root / str(self._count)
        path.mkdir(parents=True)
        (path / "items.tfrecord").write_text(f"checkpoint {self._count}")
        assert self.may_finish.wait(10)
        if self.failure == "raises":
            raise RuntimeError("no space left on device")
        if self.failure != "is incomplete":
            (path / "DONE").touch()
        return path

    def discard(self):
        shutil.rmtree(self._root)
        self._root.mkdir()

    def describe(self, folder):
        return folder.name


ITEM = {"length": 8, "columns": [["float32", [7]]]}


def make_checkpointer(
    root, agent, train_step, client, item=ITEM, arithmetic="float32", fence=UNRIVALLED, signals=None
):
    return Checkpointer(root, agent, train_step, client, item, arithmetic, fence, signals)


def train(agent, num_steps):
    """Eager train steps on minibatches, and with noise, that depend on the train step only."""
    for _ in range(num_steps):
        step = int(agent.train_step_counter)
        rng = np.random.default_rng(step)
        tf.random.set_seed(step)

        def draw(*shape, rng=rng):
            return tf.constant(rng.normal(size=shape), tf.float32)

        observation, action, reward = draw(4, 2), tf.tanh(draw(4, 1)), draw(4)
        agent.train(
            Transition(tf.zeros([4]), observation, action, reward, tf.ones([4]), draw(4, 2))
        )


def save(checkpointer):
    assert checkpointer.save()
    assert checkpointer.wait(timeout_secs=60)
