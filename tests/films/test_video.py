import math
import random
import subprocess
import sys
from fractions import Fraction

import imageio_ffmpeg
import numpy as np
import pytest
from fakes import CountingEnv
from small_disk import small_disk

from tfagents_system.collection.rollouts import run_episode
from tfagents_system.films import camera as camera_lib
from tfagents_system.films import video
from tfagents_system.films.camera import Camera, with_progress_bar
from tfagents_system.films.video import VideoError, VideoWriter

GRAY = np.full((48, 64, 3), 90, np.uint8)


class FilmedEnv(CountingEnv):
    """Renders a gray frame; `rendered` is the tape of the env steps at which it did."""

    def __init__(self, dt=1 / 30, fails_at=None, error=None, frame=GRAY, **kwargs):
        super().__init__(**kwargs)
        self.dt = dt
        self.rendered = []
        self._fails_at, self._error, self.frame = fails_at, error, frame

    def render(self, mode="rgb_array"):
        assert mode == "rgb_array"
        self.rendered.append(self._count)
        if self._count == self._fails_at:
            raise self._error
        return self.frame


class ZeroPolicy:
    def initial_state(self):
        return ()

    def action(self, time_step, state):
        return np.zeros(1, np.float32), state


def film(environment, folder, horizon, num_episodes=1, **camera_arguments):
    """Returns (the films' paths, the warnings) of a camera."""
    warnings = []
    camera = Camera(horizon, folder, warnings.append, **camera_arguments)

    def observe(time_step, action, next_time_step, state):
        camera.observe(next_time_step)
        return True

    films = []
    for index in range(num_episodes):
        camera.begin(f"episode_{index}", environment)
        run_episode(environment, ZeroPolicy(), horizon, observe)
        films.append(camera.end())
    return films, warnings


def read(path):
    """Returns (what the file says of itself, frames [T, H, W, 3])."""
    frames = imageio_ffmpeg.read_frames(str(path))
    meta = next(frames)
    width, height = meta["source_size"]
    return meta, np.stack([np.frombuffer(f, np.uint8).reshape(height, width, 3) for f in frames])


def is_blue(pixels):
    """Per pixel [..., 3], with the tolerance that H.264 needs."""
    return pixels[..., 2].astype(int) - pixels[..., 0] > 60


def stub_ffmpeg(folder, monkeypatch, script):
    stub = folder / "ffmpeg"
    stub.write_text(f"#!/bin/sh\n{script}\n")
    stub.chmod(0o755)
    monkeypatch.setattr(video.imageio_ffmpeg, "get_ffmpeg_exe", lambda: str(stub))


def test_film_plays_in_a_browser_in_real_time(tmp_path):
    (path,), warnings = film(FilmedEnv(dt=0.05), tmp_path, horizon=20)
    assert (path, warnings) == (tmp_path / "episode_0.mp4", [])
    meta, frames = read(path)
    assert meta["codec"] == "h264"
    assert meta["pix_fmt"].startswith("yuv420p")
    assert (meta["fps"], len(frames)) == (20.0, 20)
    content = path.read_bytes()
    assert content.index(b"moov") < content.index(b"mdat")  # plays before all of it has arrived
    assert [entry.name for entry in tmp_path.iterdir()] == ["episode_0.mp4"]


def test_bar_along_the_bottom_shows_the_position_in_the_episode(tmp_path):
    (path,), _ = film(FilmedEnv(), tmp_path, horizon=4)
    _, frames = read(path)
    assert is_blue(frames[:, -1]).mean(axis=1) == pytest.approx([0.25, 0.5, 0.75, 1.0], abs=0.05)
    assert not is_blue(frames[:, :-4]).any()


def test_fast_steps_are_filmed_at_the_films_rate_and_the_last_one_always(tmp_path):
    environment = FilmedEnv(dt=0.01, terminates_at=10)
    (path,), _ = film(environment, tmp_path, horizon=100)
    assert environment.rendered == [3, 6, 9, 10]
    assert read(path)[0]["fps"] == pytest.approx(100 / 3, abs=0.01)
    environment.rendered.clear()
    film(environment, tmp_path, horizon=5)
    assert environment.rendered == [3, 5]


def test_every_episode_has_a_film_of_its_own(tmp_path):
    films, _ = film(FilmedEnv(terminates_at=3), tmp_path, horizon=10, num_episodes=2)
    assert [path.name for path in films] == ["episode_0.mp4", "episode_1.mp4"]
    assert [len(read(path)[1]) for path in films] == [3, 3]


def test_without_a_folder_nothing_is_rendered(tmp_path):
    environment = FilmedEnv(terminates_at=3)
    assert film(environment, None, horizon=10) == ([None], [])
    assert environment.rendered == []


@pytest.mark.parametrize(
    ("environment", "warning"),
    [
        (CountingEnv(terminates_at=3), "does not implement render('rgb_array')"),
        (FilmedEnv(fails_at=1, error=RuntimeError("no GL\nlong story")),
         "No video of episode_0 and later: step 1 failed with RuntimeError: no GL."),
        (FilmedEnv(frame=None), "FilmedEnv.render returned NoneType"),
    ],
)  # fmt: skip
def test_failure_to_render_is_one_line_and_ends_filming(tmp_path, environment, warning):
    films, warnings = film(environment, tmp_path, horizon=3, num_episodes=2)
    assert films == [None, None]
    (line,) = warnings
    assert warning in line and "\n" not in line
    assert list(tmp_path.iterdir()) == []


def test_failure_in_the_middle_leaves_no_half_film(tmp_path):
    environment = FilmedEnv(fails_at=2, error=ValueError("lost"))
    films, (warning,) = film(environment, tmp_path, horizon=5)
    assert films == [None] and "step 2 failed with ValueError: lost." in warning
    assert environment.rendered == [1, 2]
    assert list(tmp_path.iterdir()) == []


def test_films_before_the_failure_stay(tmp_path):
    environment = FilmedEnv()
    camera = Camera(2, tmp_path, warn=lambda line: None)
    camera.begin("episode_0", environment)
    camera.observe(environment.reset())
    assert camera.end() == tmp_path / "episode_0.mp4"
    environment.frame = None
    camera.begin("episode_1", environment)
    camera.observe(environment.reset())
    assert camera.end() is None
    assert [entry.name for entry in tmp_path.iterdir()] == ["episode_0.mp4"]


@pytest.mark.parametrize(
    "frame",
    [
        GRAY / 255,
        GRAY.astype(np.float32),
        GRAY.astype(np.int64),
        GRAY[:, :, 0],
        np.moveaxis(GRAY, 2, 0),
        np.concatenate([GRAY, GRAY], axis=2)[:, :, :4] / 255,
    ],
)
def test_a_film_has_the_colors_of_whatever_is_rendered(tmp_path, frame):
    (path,), warnings = film(FilmedEnv(frame=frame), tmp_path, horizon=3)
    _, frames = read(path)
    assert warnings == [] and frames.shape == (3, 48, 64, 3)
    np.testing.assert_allclose(frames[:, :40].mean(axis=(1, 2)), 90, atol=3)


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (2, 300)])
def test_the_encoder_takes_frames_of_any_size(tmp_path, size):
    frame = np.full((*size, 3), 90, np.uint8)
    (path,), warnings = film(FilmedEnv(frame=frame), tmp_path, horizon=2)
    assert (warnings, len(read(path)[1])) == ([], 2)


def test_changed_frame_size_ends_filming(tmp_path):
    environment, warnings = FilmedEnv(), []
    camera = Camera(5, tmp_path, warnings.append)
    camera.begin("episode_0", environment)
    camera.observe(environment.reset())
    environment.frame = GRAY[:20]
    camera.observe(environment.reset())
    assert "size changed from (64, 48) to (64, 20)" in warnings[0]


def test_discarded_film_leaves_nothing(tmp_path):
    environment = FilmedEnv()
    camera = Camera(5, tmp_path, warn=pytest.fail)
    camera.begin("episode_0", environment)
    camera.observe(environment.reset())
    assert [path.name[:15] for path in tmp_path.iterdir()] == [".episode_0.mp4."]
    camera.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_film_that_takes_too_long_is_of_fewer_pictures(tmp_path):
    environment, now = FilmedEnv(), [0.0]

    def render(mode):
        now[0] += 2.0
        return FilmedEnv.render(environment, mode)

    environment.render = render
    films, warnings = film(
        environment, tmp_path, horizon=20, num_episodes=2, max_secs=10, clock=lambda: now[0]
    )
    # A picture takes 2 s, which 4 of 20 steps have of 10 s.
    assert environment.rendered == [1, 4, 8, 12, 16, 20] * 2
    assert [len(read(path)[1]) for path in films] == [20, 20]
    assert warnings == []


class NoisyEnv(FilmedEnv):
    """Draws from all generators while it renders, and from all in an episode."""

    def __init__(self):
        super().__init__()
        self.np_random = np.random.default_rng(0)
        self.drawn = []

    def _draw(self):
        return random.random(), np.random.rand(), self.np_random.random()

    def render(self, mode="rgb_array"):
        self._draw()
        return super().render(mode)

    def _step(self, action):
        self.drawn.append(self._draw())
        return super()._step(action)


def test_what_rendering_draws_is_not_missing_from_the_episodes(tmp_path):
    drawn = []
    for folder in (None, tmp_path):
        random.seed(0)
        np.random.seed(0)
        environment = NoisyEnv()
        film(environment, folder, horizon=5)
        drawn.append(environment.drawn)
    assert len(drawn[0]) == 5 and drawn[0] == drawn[1]


FILM_WITHOUT_END = """
import fractions, pathlib, sys, time
import numpy as np
from tfagents_system.films.video import VideoWriter
writer = VideoWriter(pathlib.Path(sys.argv[1]), 64, 48, fractions.Fraction(10))
writer.write(np.zeros((48, 64, 3), np.uint8))
print("filming", flush=True)
time.sleep(600)
"""


def test_half_films_of_killed_programs_are_never_seen_and_go_those_of_others_stay(tmp_path):
    films = [tmp_path / "killed.mp4", tmp_path / "going_on.mp4"]
    killed, other = programs = [
        subprocess.Popen([sys.executable, "-c", FILM_WITHOUT_END, path], stdout=subprocess.PIPE)
        for path in films
    ]
    try:
        assert [program.stdout.readline() for program in programs] == [b"filming\n"] * 2
        killed.kill()
        killed.wait()
        hidden = sorted(path.name.partition(".mp4")[0] for path in tmp_path.iterdir())
        assert hidden == [".going_on", ".killed"]
        Camera(5, tmp_path, warn=pytest.fail)
        assert [path.name.partition(".mp4")[0] for path in tmp_path.iterdir()] == [".going_on"]
    finally:
        for program in programs:
            program.kill()
            program.communicate()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("cat > /dev/null; echo 'no such codec' >&2; exit 1", "no such codec"),
        ("echo 'Unknown encoder' >&2; exit 1", "Unknown encoder"),  # the pipe breaks
        ("exit 3", "ffmpeg ended with 3"),
    ],
)
def test_failure_of_the_encoder_is_one_line(tmp_path, monkeypatch, script, reason):
    stub_ffmpeg(tmp_path, monkeypatch, script)
    films, warnings = film(FilmedEnv(), tmp_path, horizon=50)
    assert films == [None]
    assert warnings == [f"No video of episode_0 and later: {reason}."]


@pytest.mark.parametrize("spare_bytes", [0, 4096])
def test_a_full_disk_is_one_line_with_its_place_and_leaves_no_half_film(spare_bytes):
    noise = np.random.default_rng(0).integers(0, 255, (256, 256, 3), np.uint8)
    with small_disk(1 << 20) as disk:
        folder = disk.folder / "videos"
        folder.mkdir()
        disk.fill(spare_bytes)
        films, warnings = film(FilmedEnv(frame=noise), folder, horizon=30, num_episodes=2)
        assert films == [None, None]
        assert warnings == [
            "No video of episode_0 and later: DISK FULL: film does not fit, "
            f"{spare_bytes / 1000:.1f} kB free in {folder}.".replace("0.0 kB", "0 B")
        ]
        assert list(folder.iterdir()) == []


def test_missing_encoder_is_explained(tmp_path, monkeypatch):
    missing = str(tmp_path / "missing")
    monkeypatch.setattr(video.imageio_ffmpeg, "get_ffmpeg_exe", lambda: missing)
    with pytest.raises(VideoError, match="ffmpeg does not start.*missing"):
        VideoWriter(tmp_path / "film.mp4", 64, 48, Fraction(30))


def test_progress_bar_makes_odd_sizes_even_and_leaves_the_frame_as_it_is():
    frame = GRAY[:47, :63].copy()
    frame.setflags(write=False)  # as some renderers return it
    result = with_progress_bar(frame, 0.5)
    assert result.shape == (48, 64, 3)
    np.testing.assert_array_equal(
        result[-2:, :32], np.broadcast_to(camera_lib._BAR_COLOR, (2, 32, 3))
    )
    np.testing.assert_array_equal(result[-2:, 32:], np.full((2, 32, 3), 90 // 3))
    np.testing.assert_array_equal(result[:-2], np.full((46, 64, 3), 90))


@pytest.mark.parametrize("fraction", [0.0, 1.0])
def test_progress_bar_at_its_ends(fraction):
    bar = with_progress_bar(GRAY, fraction)[-1]
    assert math.isclose(is_blue(bar).mean(), fraction)
