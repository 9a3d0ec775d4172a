"""What became of every env step of a run: stored once, lost, or stored twice."""

import collections
import dataclasses
import pathlib
import shutil
from collections.abc import Mapping

import numpy as np
from replay_fakes import EpisodeStepEnv, codec_of, samples_of, serving

from tfagents_system.data.item_layout import ItemLayout
from tfagents_system.data.sample_reader import SampleReader
from tfagents_system.services.replay import EXPERIENCE_TABLE
from tfagents_system.services.replay_limits import ReplayLimits

LAYOUT = ItemLayout(4)  # of a TinyRun
BURST = 48  # steps that a killed worker may not have sent yet


@dataclasses.dataclass(frozen=True)
class Account:
    """Counts of env steps."""

    stepped: int
    stored: int
    lost: int  # missing, and not in the unfinished burst of a worker's end
    duplicated: int
    unfinished: int  # missing at the ends of workers' lives


def lives_of(run) -> dict[int, int]:
    """Returns the env steps of each life of a worker, by its process id."""
    tapes = run.folder.glob("life_*")
    return {int(path.name.removeprefix("life_")): path.stat().st_size for path in tapes}


def account_of(run, lives: Mapping[int, int] | None = None) -> Account:
    """Compares the newest checkpoint of a TinyRun, which must have ended, with its tapes.

    `lives` are those that count; None: all.
    """
    steps_by_life = lives_of(run) if lives is None else lives
    newest = max(p for p in run.paths.checkpoints.iterdir() if p.name.isdigit())
    everything = stored_steps(newest / "replay", run.folder / "reader")
    stored = {key: count for key, count in everything.items() if key[0] in steps_by_life}
    lost = unfinished = 0
    for life, num_steps in steps_by_life.items():
        missing = [k for k in range(1, num_steps + 1) if (life, k) not in stored]
        last_stored = max((k for pid, k in stored if pid == life), default=0)
        at_the_end = sum(k > last_stored for k in missing)
        lost += len(missing) - at_the_end + max(0, at_the_end - BURST)
        unfinished += min(at_the_end, BURST)
    return Account(
        stepped=sum(steps_by_life.values()),
        stored=len(stored),
        lost=lost,
        duplicated=sum(count - 1 for count in stored.values()),
        unfinished=unfinished,
    )


def stored_steps(checkpoint: pathlib.Path, root: pathlib.Path) -> collections.Counter:
    """Returns how often a replay checkpoint holds each (process id, step of the process)."""
    reader = SampleReader(codec_of(EpisodeStepEnv()), LAYOUT)  # of the same shapes
    unlimited = ReplayLimits(10**6, min_size=1, samples_per_insert=1.0, error_buffer=1e12)
    blocks = {}
    shutil.rmtree(root, ignore_errors=True)  # of an earlier count
    with serving(root, unlimited, checkpoint) as replay:
        client = replay.client()
        size = client.server_info(timeout=5)[EXPERIENCE_TABLE].current_size
        while len(blocks) < size:
            for sample in client.sample(EXPERIENCE_TABLE, 5 * size, emit_timesteps=False):
                blocks[sample.info.key] = samples_of(reader, sample.data).next_observation
    life, step = np.concatenate(list(blocks.values())).reshape(-1, 2).astype(np.float64).T
    steps = zip(np.rint(life * 1e7).astype(int), np.rint(step * 1e5).astype(int), strict=True)
    return collections.Counter((int(life), int(step)) for life, step in steps)
