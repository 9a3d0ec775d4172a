"""Checkpoints that a journal is compared with, and its steps, as numbers."""

import dataclasses

import numpy as np
import tensorflow as tf

from tfagents_system.services.journal import Checkpoints
from tfagents_system.services.replay_files import NOTHING, StoredNumbers, _as_ranges, first_number

COLUMNS = [tf.TensorSpec([2], tf.float32), tf.TensorSpec([1], tf.int32)]
RECORD_BYTES = 8 + 8 + 1 + 2 * 4 + 4 + 4  # place, number, flag, columns, checksum


def stored(*ranges, is_full=False, stream=1):
    """Returns a checkpoint that holds ranges of the rows of a stream, counted from 1."""
    ranges = np.array(ranges, np.int64).reshape(-1, 2)
    return StoredNumbers(ranges + first_number(stream) - 1, is_full)


def described(numbers, capacity, older=NOTHING):
    """Returns the checkpoint after `older` of a table in which `numbers` have arrived."""
    left = np.sort(np.array(numbers[-capacity:], np.int64))
    contents = StoredNumbers(_as_ranges(left, stride=1), len(left) == capacity)
    return dataclasses.replace(contents, removed=contents.removed_after(older))


def together(*contents):
    return StoredNumbers(np.concatenate([c.ranges for c in contents]), contents[0].is_full)


def step(value, completes_item=True):
    return [np.full(2, value, np.float32), np.full(1, value, np.int32)], completes_item


def values(steps):
    for s in steps:
        assert s.columns[0].tolist() == [s.columns[1][0]] * 2
        assert s.columns[0].dtype == np.float32 and s.columns[1].dtype == np.int32
    return [int(s.columns[1][0]) for s in steps]


def numbers(steps, stream=1):
    """Of a stream, counted from 1."""
    return [int(s.number) - first_number(stream) + 1 for s in steps]


def reconcile(journal, newest, older=NOTHING, gone=()):
    """With a server that inserts in order."""
    return journal.reconcile(Checkpoints(newest, older, gone), num_unordered=1)


def only_file(tmp_path):
    (path,) = (tmp_path / "journals").iterdir()
    return path
