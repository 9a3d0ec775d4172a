"""Joins several films into one, side by side."""

import pathlib
from collections.abc import Callable, Generator, Sequence
from fractions import Fraction
from functools import partial
from itertools import zip_longest
from typing import Any

import imageio_ffmpeg
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from tfagents_system.core.state.paths import POLICY_CHECKPOINT_PREFIX
from tfagents_system.evaluation.results import remove_other_films
from tfagents_system.evaluation.summary import EvaluatedEpisode
from tfagents_system.films.video import VideoError, VideoWriter
from tfagents_system.terminal.lines import Terminal

_LABEL_HEIGHT, _GAP = 28, 4  # pixels; even, as all film sizes
_LARGEST_FONT, _SMALLEST_FONT = 16, 6
_Frames = Generator[NDArray[np.uint8], None, None]


def film(
    folder: pathlib.Path,
    evaluated: Sequence[tuple[str, Sequence[EvaluatedEpisode]]],
    terminal: Terminal,
    should_stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Joins the films of each episode of several policies, and prints where, or why it cannot.

    Removes joined films of an earlier evaluation. Returns False after a stop.

    Args:
      folder: A folder in it, named after the policies' train steps, gets `episode_<index>.mp4`.
      evaluated: Names of the policy checkpoints with their episodes, equally many.
      terminal: Prints the messages.
      should_stop: Called after each frame; True ends it without the current film.
    """
    steps = [name.removeprefix(POLICY_CHECKPOINT_PREFIX) for name, _ in evaluated]
    folder = folder / "_".join(steps)
    num_episodes, joined = len(evaluated[0][1]), list[pathlib.Path]()
    for episodes in zip(*(episodes for _, episodes in evaluated), strict=True):
        number = episodes[0].number
        if any(each.video is None for each in episodes):
            continue  # it has already been reported
        labels = [
            f"train step {int(step):,}: return {each.episode.episode_return:.6g}"
            for step, each in zip(steps, episodes, strict=True)
        ]
        terminal.show(partial("joining the films of episode {}".format, number))
        films = [each.video for each in episodes]
        try:
            path = folder / f"episode_{number}.mp4"
            if not join_films(list(zip(labels, films, strict=True)), path, should_stop):
                terminal.print(f"stopped after joining {len(joined)} of {num_episodes} films")
                return False
            joined.append(path)
            remove_other_films(folder, joined)
        except (VideoError, OSError) as error:
            terminal.print(f"No films in {folder}: {error}.")
            return True
    if joined:
        terminal.print(f"next to each other in {folder}")
    return True


def join_films(
    films: Sequence[tuple[str, pathlib.Path]],
    path: pathlib.Path,
    should_stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Writes one film with `films` from left to right, each with its label on top.

    All show the same environment, so they have one size and rate. A shorter film stays at its last
    frame. Returns False, without a film, once `should_stop` returns True.

    Raises:
      VideoError: If the encoder fails.
      OSError: If the folder of `path` cannot be written.
    """
    opened = [_read(film) for _, film in films]
    size, frames_per_sec = opened[0][0], opened[0][1]
    labels = [
        _label(text, width) for (text, _), ((width, _), _, _) in zip(films, opened, strict=True)
    ]
    gap = np.zeros((_LABEL_HEIGHT + size[1], _GAP, 3), np.uint8)
    total_width = sum(label.shape[1] for label in labels) + _GAP * (len(films) - 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = VideoWriter(path, total_width, len(gap), frames_per_sec)
    try:
        shown: list[Any] = [None] * len(films)
        for frames in zip_longest(*(frames for *_, frames in opened)):
            if should_stop():
                writer.discard()
                return False
            shown = [old if new is None else new for new, old in zip(frames, shown, strict=True)]
            parts = []
            for label, frame in zip(labels, shown, strict=True):
                parts += [gap, np.concatenate([label, frame])]
            writer.write(np.concatenate(parts[1:], axis=1))
        writer.finish()
        return True
    except BaseException:
        writer.discard()
        raise
    finally:
        for *_, unread in opened:
            unread.close()


def _read(path: pathlib.Path) -> tuple[tuple[int, int], Fraction, _Frames]:
    """Returns width, height, frames per second, and the frames [H, W, 3] of a film."""
    pixels = imageio_ffmpeg.read_frames(str(path))
    facts = next(pixels)
    width, height = facts["size"]

    def frames() -> _Frames:
        for frame in pixels:
            yield np.frombuffer(frame, np.uint8).reshape(height, width, 3)

    rate = Fraction(facts["fps"]).limit_denominator(1000)
    return (width, height), rate, frames()


def _label(text: str, width: int) -> NDArray[np.uint8]:
    """Draws a text in white on black, [28, width, 3] uint8, as large as fits."""
    image = Image.new("RGB", (width, _LABEL_HEIGHT))
    for size in range(_LARGEST_FONT, _SMALLEST_FONT - 1, -1):
        font = ImageFont.load_default(size)
        if font.getlength(text) <= width - 2 * _GAP:
            break
    center = width / 2, _LABEL_HEIGHT / 2
    ImageDraw.Draw(image).text(center, text, "white", font, anchor="mm")
    return np.asarray(image)
