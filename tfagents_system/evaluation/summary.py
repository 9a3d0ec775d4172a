"""Summarizes an evaluation: statistics, table and CSV."""

import csv
import io
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from tfagents_system.collection.rollouts import Episode
from tfagents_system.core.state.files import write_text_atomically
from tfagents_system.records.bootstrap import mean_and_standard_error
from tfagents_system.records.success import counted

HEADER = f"{'episode':>7}  {'return':>12}  {'length':>7}  success"
CSV_COLUMNS = ("episode", "return", "length", "success", "seed", "video")


class EvaluatedEpisode(NamedTuple):
    """One complete episode of an evaluation."""

    number: int  # from 0
    episode: Episode
    video: pathlib.Path | None  # None if not filmed


def row(evaluated: EvaluatedEpisode, success_seen: bool = False) -> str:
    """Returns an episode's line of the table; `success_seen`: whether any reported success."""
    episode = evaluated.episode
    (counts,) = counted([episode.success], success_seen)
    success = {None: "-", True: "yes", False: "no"}[counts]
    return f"{evaluated.number:>7}  {episode.episode_return:>12.6g}  {episode.length:>7}  {success}"


def summary_lines(evaluated: Sequence[EvaluatedEpisode]) -> list[str]:
    """Returns the lines below the table, for at least one episode."""
    episodes = [e.episode for e in evaluated]
    lines = [
        _mean_line("return", [episode.episode_return for episode in episodes]),
        _mean_line("length", [float(episode.length) for episode in episodes]),
    ]
    for name in dict.fromkeys(name for episode in episodes for name in episode.numbers):
        lines.append(_mean_line(name, [e.numbers[name] for e in episodes if name in e.numbers]))
    counts = counted([episode.success for episode in episodes])
    successes = [success for success in counts if success is not None]
    if successes:
        rate = 100 * sum(successes) / len(successes)
        lines.append(f"success rate {rate:.0f}% ({sum(successes)} of {len(successes)})")
    return lines


def _mean_line(name: str, values: Sequence[float]) -> str:
    mean, error = mean_and_standard_error(values)
    return f"mean {name} {mean:.6g}" + ("" if error is None else f", standard error {error:.4g}")


def write_csv(path: pathlib.Path, evaluated: Sequence[EvaluatedEpisode], seed: int) -> None:
    """Writes one line per episode, atomically; `success` and `video` are empty where unknown."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    successes = counted([e.episode.success for e in evaluated])
    for (number, episode, video), success in zip(evaluated, successes, strict=True):
        writer.writerow(
            [
                number,
                episode.episode_return,
                episode.length,
                "" if success is None else int(success),
                seed,
                video.name if video else "",
            ]
        )
    write_text_atomically(path, text.getvalue())
