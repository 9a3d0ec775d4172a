"""Saves and restores the learner's half of a checkpoint, and requests the replay server's half."""

import collections
import contextlib
import dataclasses
import errno
import functools
import math
import os
import pathlib
import re
import shutil
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import tensorflow as tf
from tf_agents.agents import tf_agent

from tfagents_system.agents.construction import algorithm_of
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.background import start_thread
from tfagents_system.core.state.disk import (
    check_space_is_left,
    free_bytes,
    is_disk_full,
    shortage,
)
from tfagents_system.core.state.files import make_folder_durably
from tfagents_system.core.state.generations import (
    MANIFEST,
    REPLAY_FOLDER,
    checkpoint_bytes,
    clear_unfinished,
    newest_intact_generation,
    publish_generation,
    unfinished_dir,
)
from tfagents_system.core.state.incarnation import Fence
from tfagents_system.core.state.manifests import read_manifest
from tfagents_system.core.state.patience import patiently
from tfagents_system.learning.save_record import SaveRecord

DEPENDENCIES = "requires"  # format in the manifest; versions before 0.2 had others
OF_SIGNALS = "reward_signals/"  # prefix of the names of the signals' variables
LEARNER_PREFIX = "learner/state"
LEARNER_FILES = (f"{LEARNER_PREFIX}.index", f"{LEARNER_PREFIX}.data-00000-of-00001")
MOST_SAVING_SHARE = 0.05  # of the time
SHORT_SAVE_SECS = 1.0  # a save this short is no burden, however frequent
MOST_SHOWN = 5  # differences, in a message


@dataclasses.dataclass(frozen=True)
class Dependencies:
    """The facts in a manifest that must match to restore the checkpoint."""

    agent: str  # name of its algorithm, or the class of a user's agent
    item: Mapping[str, Any]  # layout and columns of an item of the replay buffer; see RunSpec
    variables: Mapping[str, list[int]]  # shapes by name
    arithmetic: str  # of matrix products; may differ, because variables are always float32

    def differences(self, saved: Mapping[str, Any]) -> list[str]:
        """Returns a line for each value that differs from the checkpoint's, `saved` as JSON."""
        lines = []
        for field in ("agent", "item", "variables"):
            before, now = saved[field], getattr(self, field)
            if not isinstance(now, Mapping):
                before, now = {"": before}, {"": now}
            lines += [
                f"{f'{field} {name}'.strip()}: {before.get(name, 'nothing')} in the checkpoint, "
                f"{now.get(name, 'nothing')} now"
                for name in sorted(before.keys() | now.keys())
                if before.get(name) != now.get(name)
            ]
        return lines


class ReplayPart(Protocol):
    """The replay server's part of a checkpoint; see ReplaySnapshots."""

    @property
    def files(self) -> Sequence[str]:
        """Names of files that its folder must have."""

    def checkpoint(self) -> pathlib.Path:
        """Blocks until the server has written everything; returns the folder."""

    def discard(self) -> None:
        """Removes the remains of an abandoned checkpoint."""

    def describe(self, folder: pathlib.Path) -> dict[str, Any]:
        """Describes the items in `folder` for the manifest, which the workers read."""


class Checkpointer:
    """Writes generations `checkpoints/<train_step>/{learner, replay, manifest.json}`.

    `save` writes the learner's state itself (tens of milliseconds). A thread has the replay server
    write its state, which takes seconds, while training continues. The generation is valid once
    both are complete.
    """

    def __init__(
        self,
        root: pathlib.Path,
        agent: tf_agent.TFAgent,
        train_step: tf.Variable,
        replay: ReplayPart,
        item: Mapping[str, Any],
        arithmetic: str,
        fence: Fence,
        reward_signals: tf.Module | None = None,
    ):
        """Makes `root` and clears unfinished generations.

        Args:
          root: Folder of the generations.
          agent: All of its variables are saved, including optimizers and target networks.
          train_step: Saved and restored with the agent.
          replay: Access to the replay server.
          item: Layout and columns of an item of the replay buffer, as in the RunSpec.
          arithmetic: The agent's arithmetic of matrix products.
          fence: Fence of this start of the learner; once superseded, nothing is saved.
          reward_signals: Saved with the agent; None if there are none.
        """
        self._root = root
        self._fence = fence
        make_folder_durably(root)
        patiently(lambda: clear_unfinished(root, fence), str(root))
        self._train_step = train_step
        self._replay = replay
        shapes = shapes_of(agent.variables)
        self._checkpoint = tf.train.Checkpoint(agent=agent, train_step=train_step)
        if reward_signals is not None:
            of_signals = shapes_of(reward_signals.variables)
            shapes |= {f"{OF_SIGNALS}{name}": shape for name, shape in of_signals.items()}
            self._checkpoint.reward_signals = reward_signals
        self._dependencies = Dependencies(algorithm_of(agent), item, shapes, arithmetic)
        self._arithmetic_change: str | None = None
        self._thread: threading.Thread | None = None
        self._record = SaveRecord()
        self._lacks_space = False
        self._save_secs, self._ended_at = 0.0, -math.inf  # of the last generation

    @property
    def is_affordable(self) -> bool:
        """Whether a save now would keep saving below MOST_SAVING_SHARE of the time.

        A large replay buffer takes long to save, so its checkpoints must be less frequent.
        """
        if self._save_secs <= SHORT_SAVE_SECS:
            return True
        rest_secs = self._save_secs * (1 / MOST_SAVING_SHARE - 1)
        return time.monotonic() >= self._ended_at + rest_secs

    @property
    def lacks_space(self) -> bool:
        """Whether the last save was abandoned because the disk is full."""
        return self._lacks_space

    @property
    def record(self) -> SaveRecord:
        """The record of saves of this start of the learner."""
        return self._record

    @property
    def arithmetic_change(self) -> str | None:
        """The change of arithmetic since the restored generation; None if there is none."""
        return self._arithmetic_change

    def restore(self) -> bool:
        """Restores the newest intact generation and prints it; returns whether there is one.

        Raises:
          ConfigError: If all generations are damaged, or if the newest intact one is of another
            agent or an older version.
        """
        generation = newest_intact_generation(self._root)
        if generation is None:
            return False
        saved = self._check_dependencies(generation)
        # Optimizer slots are created, and get their values, with the first train step.
        status = self._checkpoint.read(str(generation / LEARNER_PREFIX))
        try:
            status.assert_existing_objects_matched()
        except AssertionError as error:  # such as the optimizer of `behavioral_cloning`
            raise ConfigError(f"{generation} lacks what the new settings need: {error}") from error
        self._record.succeed(int(self._train_step.numpy()))
        print(f"Restored train step {int(self._train_step.numpy())}.")
        before, now = saved["arithmetic"], self._dependencies.arithmetic
        if before != now:
            self._arithmetic_change = f"{before} in the checkpoint, {now} here"
            print(f"ARITHMETIC CHANGED: {self._arithmetic_change}. Training continues.")
        return True

    def save(self) -> bool:
        """Begins to save the current state; returns False while the last save is unfinished.

        If it cannot be written, as on a full disk, it is abandoned, and older generations stay.
        """
        if self._thread is not None and self._thread.is_alive():
            return False
        self._record.begin()
        started = time.monotonic()
        train_step = int(self._train_step.numpy())
        unfinished = unfinished_dir(self._root, train_step, self._fence)
        try:
            shutil.rmtree(unfinished, ignore_errors=True)
            (unfinished / LEARNER_PREFIX).parent.mkdir(parents=True)
            self._checkpoint.write(str(unfinished / LEARNER_PREFIX))
        except (OSError, tf.errors.OpError) as error:
            self._give_up(unfinished, train_step, error)
            return True
        save_replay = functools.partial(self._save_replay, unfinished, train_step, started)
        self._thread = start_thread(save_replay, "checkpoint")
        return True

    def wait(self, timeout_secs: float) -> bool:
        """Waits for the last save; returns whether it is finished."""
        if self._thread is not None:
            self._thread.join(timeout_secs)
            return not self._thread.is_alive()
        return True

    def _check_dependencies(self, generation: pathlib.Path) -> Mapping[str, Any]:
        """Checks that `generation` matches this learner; returns its dependencies."""
        manifest = patiently(lambda: read_manifest(generation), str(generation / MANIFEST))
        saved = manifest.get(DEPENDENCIES)
        if saved is None:
            raise ConfigError(
                f"{generation / MANIFEST} has no {DEPENDENCIES!r}: an older version of this "
                "project wrote the checkpoint. Finish the run with that version, or start again "
                "with another SAC_EXP_NAME."
            )
        if differences := self._dependencies.differences(saved):
            hidden = len(differences) - MOST_SHOWN
            more = f" and {hidden} more" if hidden > 0 else ""
            raise ConfigError(
                f"{generation} is of another agent ({'; '.join(differences[:MOST_SHOWN])}{more}). "
                "The observations, actions, networks, sequences and blocks (as many transitions as "
                "the greatest common divisor of 8 and fresh_samples_per_step) of an experiment "
                "that has begun may not change: restore them, or start again with another "
                "SAC_EXP_NAME."
            )
        return saved

    def _save_replay(self, unfinished: pathlib.Path, train_step: int, started: float) -> None:
        try:
            # The server answers when the folder is complete.
            path = self._replay.checkpoint()
            check_space_is_left(self._root)
            path.rename(unfinished / REPLAY_FOLDER)
            required = (*LEARNER_FILES, *(f"{REPLAY_FOLDER}/{name}" for name in self._replay.files))
            facts = {
                "saved_at": time.time(),
                "stored": self._replay.describe(unfinished / REPLAY_FOLDER),
                DEPENDENCIES: dataclasses.asdict(self._dependencies),
            }
            publish_generation(unfinished, self._root, train_step, facts, self._fence, required)
        except Exception as error:
            self._give_up(unfinished, train_step, error)
            return
        self._lacks_space = False
        self._record.succeed(train_step)
        self._ended_at = time.monotonic()
        self._save_secs = self._ended_at - started
        print(f"Checkpoint at train step {train_step} ({self._save_secs:.1f} s).")

    def _give_up(self, unfinished: pathlib.Path, train_step: int, error: Exception) -> None:
        """Removes an unfinished generation; training continues, and the next period tries again."""
        shutil.rmtree(unfinished, ignore_errors=True)
        with contextlib.suppress(OSError):
            self._replay.discard()  # otherwise it would fill the disk
        self._record.fail(_reason(error))
        print(f"Checkpoint at train step {train_step} failed: {error!r}; the older ones stay.")
        self._lacks_space = is_disk_full(error)
        if self._lacks_space:
            print(shortage("checkpoint", checkpoint_bytes(self._root), free_bytes(self._root)))


def _reason(error: Exception) -> str:
    """Returns the reason of a failed save in one line, without TensorFlow's op name."""
    if is_disk_full(error):
        return os.strerror(errno.ENOSPC)
    lines = re.sub(r"^{{function_node \S+}}", "", str(error)).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def shapes_of(variables: Iterable[tf.Variable]) -> dict[str, list[int]]:
    """Returns the shape of each of `variables` by its name."""
    num_before: collections.Counter[str] = collections.Counter()
    shapes = {}
    for variable in variables:
        num_before[variable.name] += 1
        count = num_before[variable.name]
        name = variable.name if count == 1 else f"{variable.name} ({count})"
        shapes[name] = variable.shape.as_list()
    return shapes
