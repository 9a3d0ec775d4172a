"""The tables of the replay server, and their part of a checkpoint."""

import dataclasses
import pathlib
import shutil
from collections.abc import Collection, Sequence
from typing import Any

import reverb
import tensorflow as tf
from reverb.platform.checkpointers_lib import DefaultCheckpointer

from tfagents_system.core.state.files import read_json, write_json_durably
from tfagents_system.core.state.generations import read_manifests
from tfagents_system.data.item_layout import ItemLayout
from tfagents_system.services.replay_files import (
    CHECKPOINT_FILES,
    NOTHING,
    check_is_whole,
    describe_items,
    empty_reverb_root,
    neighbours,
    stored_numbers,
    wrong_items,
)
from tfagents_system.services.replay_limits import NO_RATIO, ReplayLimits, checkpoint_with_limits
from tfagents_system.services.signatures import check_saved_columns
from tfagents_system.services.table_info import table_stats
from tfagents_system.services.tickets import tickets_table

EXPERIENCE_TABLE = "experience"
VARIABLES_TABLE = "variables"
DISCARDED = "discarded.json"  # next to the generations: numbers of items removed for good
STREAM_TABLE = "stream"  # in a deterministic run: items that the learner has not taken yet
ROUNDS_TABLE = "rounds"  # in a deterministic run: train step of the policy whose round is complete


def start_server(
    limits: ReplayLimits,
    port: int,
    checkpoint_root: pathlib.Path,
    restore_from: pathlib.Path | None,
    is_deterministic: bool = False,
    columns: Sequence[tf.TensorSpec] | None = None,
    num_eval_episodes: int = 0,
) -> reverb.Server:
    """Starts the replay server; it serves until its `stop()`.

    Args:
      limits: Sizes and ratio of the experience table.
      port: TCP port; must be free (gRPC would share a port silently).
      checkpoint_root: Folder that Reverb owns: it deletes everything unknown there.
      restore_from: A Reverb checkpoint folder with the experience to restore; None starts empty.
        It may have been made with other limits. It is not changed.
      is_deterministic: Whether worker and learner take turns, with their own tables and no ratio.
      columns: Specs [rows, size] of an item's columns, the signature of the experience table; None
        for no signature, which accepts any items.
      num_eval_episodes: Episodes of an evaluation.

    Raises:
      ConfigError: If the items in `restore_from` have other columns.
    """
    if is_deterministic:
        limits = dataclasses.replace(limits, min_size=1, error_buffer=NO_RATIO, workers_wait=True)
    other_limits = checkpoint_root.with_name(".other_limits")
    shutil.rmtree(other_limits, ignore_errors=True)
    if restore_from:
        if columns is not None:
            check_saved_columns(restore_from, EXPERIENCE_TABLE, columns)
        restore_from = checkpoint_with_limits(restore_from, EXPERIENCE_TABLE, limits, other_limits)
    experience = experience_table(limits, columns)
    messages = [_message_table(VARIABLES_TABLE), tickets_table(num_eval_episodes)]
    if is_deterministic:
        messages += [_message_table(ROUNDS_TABLE), _stream_table(limits.capacity)]
    checkpointer = DefaultCheckpointer(
        path=str(checkpoint_root),
        fallback_checkpoint_path=str(restore_from) if restore_from else None,
    )
    server = reverb.Server([experience, *messages], port=port, checkpointer=checkpointer)
    if restore_from:
        shutil.rmtree(other_limits, ignore_errors=True)
        # The checkpoint's variables may be newer than the learner's, or older than the workers'.
        for table in messages:
            server.localhost_client().reset(table.name)
    return server


def experience_table(
    limits: ReplayLimits, columns: Sequence[tf.TensorSpec] | None = None
) -> reverb.Table:
    """Returns the table of items with `columns` [rows, size]; None: any items."""
    return reverb.Table(
        name=EXPERIENCE_TABLE,
        sampler=reverb.selectors.Uniform(),
        remover=reverb.selectors.Fifo(),
        max_size=limits.capacity,
        rate_limiter=limits.rate_limiter(),
        signature=None if columns is None else tuple(columns),
    )


def _message_table(name: str) -> reverb.Table:
    """Returns a table in which a new item replaces the one before."""
    return reverb.Table(
        name=name,
        sampler=reverb.selectors.Uniform(),
        remover=reverb.selectors.Fifo(),
        max_size=1,
        rate_limiter=reverb.rate_limiters.MinSize(1),
    )


def _stream_table(capacity: int) -> reverb.Table:
    """Returns a queue that drops its oldest items when full, like the experience table."""
    return reverb.Table(
        name=STREAM_TABLE,
        sampler=reverb.selectors.Fifo(),
        remover=reverb.selectors.Fifo(),
        max_size=capacity,
        max_times_sampled=1,
        rate_limiter=reverb.rate_limiters.MinSize(1),
    )


class ReplaySnapshots:
    """The learner's access to the replay server's part of a checkpoint."""

    files = CHECKPOINT_FILES

    def __init__(
        self, client: reverb.Client, layout: ItemLayout, root: pathlib.Path, incarnation: int
    ):
        """Sends no request yet; checkpoints, and the server's own folder, are in `root`."""
        self._client = client
        self._layout = layout
        self._root = root
        self._incarnation = incarnation
        # Items that were duplicates, had no number, or were discarded by any start.
        self.num_removed = len(self._discarded())

    def checkpoint(self) -> pathlib.Path:
        """Blocks until the server has written everything; returns the folder.

        Removes duplicates: an item that arrives after another worker has sent it again. Also
        removes items without a number, which a manifest cannot describe.

        Raises:
          TimeoutError: If the server does not answer; a checkpoint would wait without limit.
          ValueError: If its files are cut short.
        """
        folder = self._write()
        wrong = wrong_items(folder, EXPERIENCE_TABLE, self._discarded())
        if wrong.repeated:
            print(f"{len(wrong.repeated)} items have arrived twice; the later ones are removed.")
        if wrong.unnumbered:
            print(f"{len(wrong.unnumbered)} items have a priority that is not the number of "
                  "an env step, so no worker of this run has sent them; they are "
                  "removed.")  # fmt: skip
        if keys := [key for kind in wrong for key in kind]:
            self._client.mutate_priorities(EXPERIENCE_TABLE, deletes=keys)
            self.num_removed += len(keys)
            folder = self._write()
        return folder

    def _write(self) -> pathlib.Path:
        experience_stats(self._client, timeout_secs=5)
        empty_reverb_root(self._root, self._incarnation)
        folder = pathlib.Path(self._client.checkpoint())
        check_is_whole(folder)
        return folder

    def discard(self) -> None:
        """Removes the remains of an abandoned checkpoint."""
        empty_reverb_root(self._root, self._incarnation)

    def describe(self, folder: pathlib.Path) -> dict[str, Any]:
        """Returns the numbers of the items in `folder`; see `describe_items`."""
        manifests = [m for m in read_manifests(self._root) if "stored" in m]
        older = stored_numbers(manifests[0]["stored"]) if manifests else NOTHING
        return describe_items(
            folder, EXPERIENCE_TABLE, self._layout.row_stride, older, self._discarded()
        )

    def discard_items(self, keys: Collection[int]) -> int:
        """Removes the sampled items `keys`, and those that share rows with them, for good.

        Returns their number. The next checkpoint tells the workers, which remove them from their
        journals. Blocks as `checkpoint` does.

        Raises:
          TimeoutError: If the server does not answer.
          OSError: If the removal cannot be recorded.
        """
        # Blocks do not overlap in numbers: the last rows of a block are written, with new numbers,
        # as the first of the next.
        distance = max(self._layout.rows, self._layout.row_stride + 1)
        found = neighbours(self._write(), EXPERIENCE_TABLE, keys, distance)
        discarded = self._discarded() | {number for number in found.values() if number}
        write_json_durably(self._root / DISCARDED, {"numbers": sorted(discarded)})
        unsigned = [key % 2**64 for key in found]
        self._client.mutate_priorities(EXPERIENCE_TABLE, deletes=unsigned)
        self.num_removed += len(found)
        self.discard()
        return len(found)

    def _discarded(self) -> frozenset[int]:
        """Returns the numbers of the items removed for good; none if the file is damaged."""
        try:
            return frozenset((read_json(self._root / DISCARDED) or {"numbers": []})["numbers"])
        except (ValueError, LookupError, TypeError):
            return frozenset()


def experience_stats(client: reverb.Client, timeout_secs: float) -> tuple[int, int]:
    """Returns `table_stats` of the experience table."""
    return table_stats(client, EXPERIENCE_TABLE, timeout_secs)
