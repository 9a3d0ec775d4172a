"""Compares this project's and TF-Agents' layouts of transitions, with images, too, in Reverb."""

import functools
import math
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import reverb
import tensorflow as tf
from reverb.platform.checkpointers_lib import DefaultCheckpointer
from tf_agents.policies import random_tf_policy
from tf_agents.replay_buffers import reverb_replay_buffer, reverb_utils
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory

from benchmarks.environments import FreeEnv, ImageEnv
from tfagents_system.data.item_layout import LARGEST_BLOCK, ItemLayout
from tfagents_system.data.sample_reader import SampleReader, step_codec
from tfagents_system.services.adder import Adder
from tfagents_system.services.experience import ExperienceBatches
from tfagents_system.services.replay import ReplayLimits, start_server

OBSERVATION_SPEC = tensor_spec.TensorSpec([FreeEnv.observation_size], tf.float32)
ACTION_SPEC = tensor_spec.BoundedTensorSpec([FreeEnv.action_size], tf.float32, -1.0, 1.0)
STOCK_TABLE = "uniform_table"
Steps = Iterator[tuple[ts.TimeStep, np.ndarray, ts.TimeStep]]  # (time step, action, next time step)
DATA_TIMEOUT_SECS = 5.0
NUM_IN_FLIGHT = 3 * 256  # as by default
BLOCKS = ItemLayout(LARGEST_BLOCK)  # as by default
STACKED = ItemLayout(32, frame_stack=4)  # as by default with four frames
VECTOR_BYTES = 4 * (2 * FreeEnv.observation_size + FreeEnv.action_size + 2)
FRAME_BYTES = math.prod(ImageEnv.frame_shape)


class Layout(Protocol):
    """A layout: how transitions are stored, written and read."""

    raw_bytes: int  # size of a transition: two observations of numbers, or one frame of images

    def start_server(
        self, port: int, folder: pathlib.Path, capacity: int, restore_from: pathlib.Path | None
    ) -> reverb.Server:
        """Starts a server for `capacity` transitions; its limiter never makes anyone wait."""

    def insert(self, address: str, num_transitions: int) -> float:
        """Inserts random transitions; returns the seconds until the server has them all."""

    def batches(self, address: str, batch_size: int) -> Iterator[Any]:
        """Returns an endless iterator over minibatches."""


class PackedLayout:
    """This project's layout: one vector per step and dtype, in blocks."""

    def __init__(
        self,
        items: ItemLayout = BLOCKS,
        observation_spec: tf.TensorSpec = OBSERVATION_SPEC,
        make_steps: Callable[[int], Steps] | None = None,
        raw_bytes: int = VECTOR_BYTES,
        stores_return: bool = False,
    ):
        """Makes the codec of the steps.

        Args:
          items: Layout of the items.
          observation_spec: The environment's spec, with stacked frames for images.
          make_steps: Makes random steps of this spec; None walks through FreeEnv.
          raw_bytes: Size of a transition.
          stores_return: Whether steps have the discounted return so far, as agents that normalize
            rewards need it.
        """
        self.items = items
        self.raw_bytes = raw_bytes
        codec = step_codec(observation_spec, ACTION_SPEC, items, stores_return=stores_return)
        self.reader = SampleReader(codec, items)
        self._make_steps = make_steps or _random_steps

    def start_server(self, port, folder, capacity, restore_from) -> reverb.Server:
        """Starts the project's server."""
        limits = ReplayLimits(
            capacity // self.items.samples, min_size=1, samples_per_insert=1.0, error_buffer=1e12
        )
        return start_server(limits, port, folder, restore_from)

    def insert(self, address: str, num_transitions: int) -> float:
        """Inserts as a worker does: in bursts, each confirmed before the next."""
        adder = Adder(reverb.Client(address), self.reader.codec, self.items)
        started = time.monotonic()
        for step in self._make_steps(num_transitions):
            adder.add(*step)
            if adder.is_burst_due:
                _send(adder)
        _send(adder)
        return time.monotonic() - started

    def batches(self, address: str, batch_size: int) -> Iterator[Any]:
        """Samples as the learner does."""
        return iter(
            ExperienceBatches(
                address,
                self.reader,
                batch_size,
                NUM_IN_FLIGHT,
                DATA_TIMEOUT_SECS,
            )
        )


class StockLayout:
    """ReverbReplayBuffer with ReverbAddTrajectoryObserver: overlapping trajectories of two steps.

    Source: TF-Agents, docs/tutorials/7_SAC_minitaur_tutorial.ipynb.
    """

    raw_bytes = VECTOR_BYTES

    @functools.cached_property
    def data_spec(self) -> trajectory.Trajectory:
        """The spec of one step, as a policy without extras records it."""
        time_step_spec = ts.time_step_spec(OBSERVATION_SPEC)
        return random_tf_policy.RandomTFPolicy(time_step_spec, ACTION_SPEC).trajectory_spec

    def start_server(self, port, folder, capacity, restore_from) -> reverb.Server:
        """Starts a server with the tutorial's table."""
        table = reverb.Table(
            STOCK_TABLE,
            max_size=capacity,
            sampler=reverb.selectors.Uniform(),
            remover=reverb.selectors.Fifo(),
            rate_limiter=reverb.rate_limiters.MinSize(1),
            signature=tensor_spec.add_outer_dim(self.data_spec),
        )
        restore = str(restore_from) if restore_from else None
        checkpointer = DefaultCheckpointer(str(folder), fallback_checkpoint_path=restore)
        return reverb.Server([table], port=port, checkpointer=checkpointer)

    def insert(self, address: str, num_transitions: int) -> float:
        """Inserts with the tutorial's observer; a transition is two of its steps."""
        observer = reverb_utils.ReverbAddTrajectoryObserver(
            reverb.Client(address), STOCK_TABLE, sequence_length=2, stride_length=1
        )
        mid = np.int32(ts.StepType.MID)
        started = time.monotonic()
        for time_step, action, next_time_step in _random_steps(num_transitions + 1):
            observer(
                trajectory.Trajectory(
                    mid, time_step.observation, action, (), mid,
                    next_time_step.reward, next_time_step.discount,
                )
            )  # fmt: skip
        observer.flush()
        seconds = time.monotonic() - started
        observer.close()
        return seconds

    def batches(self, address: str, batch_size: int) -> Iterator[Any]:
        """Samples as the tutorial does."""
        buffer = reverb_replay_buffer.ReverbReplayBuffer(
            self.data_spec, STOCK_TABLE, sequence_length=2, server_address=address
        )
        return iter(buffer.as_dataset(sample_batch_size=batch_size, num_steps=2).prefetch(50))


def _send(adder: Adder) -> None:
    adder.send()
    while not adder.is_confirmed(timeout_secs=1.0):
        continue


def _random_steps(count: int) -> Steps:
    """Yields (time step, action, next time step) of a walk through FreeEnv."""
    env = FreeEnv()
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (1009, env.action_size)).astype(np.float32)
    one, mid = np.float32(1.0), np.int32(ts.StepType.MID)
    time_step = ts.TimeStep(mid, np.float32(0.0), one, env.reset())
    for index in range(count):
        action = actions[index % len(actions)]
        observation, reward = env.step(action)
        next_time_step = ts.TimeStep(mid, np.float32(reward), one, observation)
        yield time_step, action, next_time_step
        time_step = next_time_step


def _random_images(count: int, frame_stack: int) -> Steps:
    """Yields steps with observations [84, 84, 3 frame_stack] that cannot be compressed."""
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (64 + frame_stack, *ImageEnv.frame_shape), np.uint8)
    action = np.zeros(FreeEnv.action_size, np.float32)
    one, mid = np.float32(1.0), np.int32(ts.StepType.MID)

    def time_step(index: int) -> ts.TimeStep:
        first = index % 64
        stacked = np.concatenate(frames[first : first + frame_stack], axis=-1)
        return ts.TimeStep(mid, one, one, stacked)

    for index in range(count):
        yield time_step(index), action, time_step(index + 1)


def images_layout(items: ItemLayout) -> PackedLayout:
    """Returns the layout for images in such items."""
    height, width, channels = ImageEnv.frame_shape
    spec = tf.TensorSpec([height, width, channels * items.frame_stack], tf.uint8)
    make_steps = functools.partial(_random_images, frame_stack=items.frame_stack)
    return PackedLayout(items, spec, make_steps, FRAME_BYTES)


LAYOUTS: dict[str, Layout] = {
    "ours": PackedLayout(),
    "tf_agents": StockLayout(),
    "images": images_layout(BLOCKS),
    "stacked_images": images_layout(STACKED),
}
