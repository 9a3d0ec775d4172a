"""What became of every env step of a run: stored once, lost, or stored twice."""

import collections
import dataclasses
import shutil
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from replay_fakes import EpisodeStepEnv, codec_of, samples_of, serving

from tfagents_system.data.item_layout import ItemLayout
from tfagents_system.data.sample_reader import SampleReader
from tfagents_system.data.transition import Transition
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
    everything = stored_steps(run)
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


def stored_steps(run) -> collections.Counter:
    """Returns how often the newest checkpoint has each (process id, step of the process)."""
    blocks = stored_blocks(run, EpisodeStepEnv())  # its observations are of the same shape
    after = np.concatenate([block.next_observation for block in blocks])
    return collections.Counter(map(life_and_step, after))


def life_and_step(observation: NDArray[np.float32]) -> tuple[int, int]:
    """Returns the process id and the step of the process that an observation of TinyEnv tells."""
    life, step = observation.astype(np.float64)
    return round(life * 1e7), round(step * 1e5)


def stored_blocks(run, environment) -> list[Transition]:
    """Returns the items of the newest checkpoint of a run that has ended: blocks of env steps.

    `environment` has the specs of the run's.
    """
    newest = max(path for path in run.paths.checkpoints.iterdir() if path.name.isdigit())
    reader = SampleReader(codec_of(environment), LAYOUT)
    unlimited = ReplayLimits(10**6, min_size=1, samples_per_insert=1.0, error_buffer=1e12)
    root, blocks = run.folder / "reader", {}
    shutil.rmtree(root, ignore_errors=True)  # of an earlier look
    with serving(root, unlimited, newest / "replay") as replay:
        client = replay.client()
        size = client.server_info(timeout=60)[EXPERIENCE_TABLE].current_size
        while len(blocks) < size:
            for sample in client.sample(EXPERIENCE_TABLE, 5 * size, emit_timesteps=False):
                blocks[sample.info.key] = samples_of(reader, sample.data)
    return list(blocks.values())
