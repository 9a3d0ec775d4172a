import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys

import gin
import hypothesis
import imageio_ffmpeg
import numpy as np
import pytest
from fakes import UNRIVALLED
from hypothesis import strategies as st
from small_disk import small_disk
from virtual_display import VirtualDisplay, install_xvfb

from tfagents_system import run
from tfagents_system.agents.construction import make_agent
from tfagents_system.core.errors import EXIT_CONFIG, EXIT_FINISHED, EXIT_STOPPED, ConfigError
from tfagents_system.core.process.guest import UserCodeError
from tfagents_system.core.programs.command_line import with_arguments
from tfagents_system.core.programs.params_loader import load_params
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.evaluation import evaluator, side_by_side
from tfagents_system.evaluation.saved_experiment import find_checkpoint
from tfagents_system.learning.policy_export import PolicyExporter

REPO = pathlib.Path(__file__).parents[2]
CONFIG = {"horizon": 20}
PARAMS = """
from tfagents_system.environments import gym_adapter
from tfagents_system.train_params_base import TrainParamsBase

class TrainParams(TrainParamsBase):
    actor_fc_layer_params = (8,)
    critic_joint_fc_layer_params = (8,)

    def env_ctor(self, *args, seed=None, **kwargs):
        return gym_adapter.load("Pendulum-v1", seed=seed)
"""
# As `python tfagents_system/run.py`, on a machine without reverb.
WITHOUT_REVERB = """
import runpy, sys
sys.modules["reverb"] = None
sys.argv[0] = "run.py"
runpy.run_path("tfagents_system/run.py", run_name="__main__")
"""
# What else macOS has not: these names of Python's own modules, and /proc.
LIKE_MACOS = (
    """
import os, pathlib, signal, socket, sys

LINUX_ONLY = {
    os: ("sched_", "SCHED_", "posix_fa", "POSIX_FADV", "eventfd", "EFD_", "memfd_create", "MFD_",
         "splice", "SPLICE_", "copy_file_range", "pidfd_open", "getrandom", "GRND_", "setres",
         "getres", "fdatasync", "O_TMPFILE", "O_PATH", "O_LARGEFILE", "O_RSYNC", "O_NOATIME",
         "getxattr", "setxattr", "listxattr", "removexattr", "XATTR_"),
    signal: ("SIGPWR", "SIGSTKFLT", "SIGRTM", "SIGPOLL", "SIGCLD", "sigtimedwait", "sigwaitinfo"),
}
for module, prefixes in LINUX_ONLY.items():
    for name in [name for name in dir(module) if name.startswith(prefixes)]:
        delattr(module, name)

def hide_proc(event, arguments):
    if event in ("open", "os.listdir", "os.scandir", "os.readlink") and arguments:
        if str(arguments[0]).startswith("/proc"):
            raise FileNotFoundError(2, "No such file or directory", arguments[0])

sys.addaudithook(hide_proc)
assert not hasattr(os, "SCHED_BATCH") and not hasattr(os, "sched_getaffinity")
"""
    + WITHOUT_REVERB
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """An experiment's folder as training leaves it, with an untrained policy."""
    root = tmp_path_factory.mktemp("logs") / "pendulum"
    root.mkdir()
    paths = ExperimentPaths(root)
    paths.params.write_text(PARAMS)
    paths.config.write_text(json.dumps(CONFIG))
    params = load_params(paths.params, CONFIG)
    agent, train_step = make_agent(params, params.env_ctor())
    exporter = PolicyExporter(paths, agent, train_step, UNRIVALLED)
    for number in (50, 100):
        train_step.assign(number)
        exporter.export()
    return root


@pytest.fixture
def exp_dir(trained, tmp_path):
    yield pathlib.Path(shutil.copytree(trained, tmp_path / "pendulum"))
    gin.clear_config()


def evaluate(exp_dir, stop=False, **changes):
    """Calls run.evaluate with the flags' defaults and `changes`; returns the exit code."""
    return run.evaluate(str(exp_dir), **changes, stop=stop)


def episodes(exp_dir, checkpoint="policy_checkpoint_0000000100"):
    with (exp_dir / "videos" / checkpoint / "episodes.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def returns(exp_dir, **changes):
    assert evaluate(exp_dir, **({"num_episodes": 2, "video": False} | changes)) == EXIT_FINISHED
    return [row["return"] for row in episodes(exp_dir)]


def run_program(*flags, script=WITHOUT_REVERB):
    """Runs the program as a process of its own, without a display and without reverb."""
    without = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER", "TF_CPP_MIN_LOG_LEVEL")
    return subprocess.run(
        [sys.executable, "-c", script, *flags],
        cwd=REPO, capture_output=True, text=True, timeout=200,
        env={key: value for key, value in os.environ.items() if key not in without},
    )  # fmt: skip


def parse(*flags):
    return with_arguments(run.evaluate, ["run.py", *flags]).keywords


def test_flags_and_their_defaults():
    assert parse("--exp_dir=logs/x") == {
        "exp_dir": "logs/x", "params": None, "config": None, "num_episodes": 5, "checkpoint": None,
        "seed": 0, "video": True, "camera": None, "beside": (), "view": False,
    }  # fmt: skip


def test_published_flags_in_both_spellings():
    published = {
        "params": "p.py", "exp_dir": "logs/x", "config": "c.json", "num_episodes": "3",
        "checkpoint": "policy_checkpoint_0000500000", "seed": "108",
    }  # fmt: skip
    others = {"camera": None, "beside": (), "view": False}
    expected = published | others | {"num_episodes": 3, "seed": 108, "video": False}
    joined = [f"--{name}={value}" for name, value in published.items()]
    apart = [text for name, value in published.items() for text in (f"--{name}", value)]
    assert parse(*joined, "--novideo") == parse("--novideo", *apart) == expected


def test_newest_checkpoint_is_the_default_and_any_other_can_be_named(exp_dir):
    paths = ExperimentPaths(exp_dir)
    assert find_checkpoint(paths, None).name == "policy_checkpoint_0000000100"
    name = "policy_checkpoint_0000000050"
    assert find_checkpoint(paths, name) == exp_dir / "policies" / "checkpoints" / name


def test_unknown_checkpoint_lists_those_that_exist(exp_dir):
    with pytest.raises(ConfigError) as error:
        find_checkpoint(ExperimentPaths(exp_dir), "policy_checkpoint_100")
    assert "no checkpoint 'policy_checkpoint_100' (--checkpoint)" in str(error.value)
    both = "policy_checkpoint_0000000050, policy_checkpoint_0000000100."
    assert str(error.value).endswith(f"There are: {both}")


@pytest.mark.fault_row("malformed input")
@hypothesis.given(st.text())
@hypothesis.example("../..")
@hypothesis.example("a" * 5000)
@hypothesis.example("\0")
@hypothesis.example("\udcff")
@hypothesis.settings(max_examples=100)
def test_any_other_checkpoint_name_is_answered(trained, name):
    with pytest.raises(ConfigError, match="There are: policy_checkpoint_0000000050, policy_"):
        evaluate(trained, checkpoint=name)
    assert not (trained / "videos").exists()


def test_experiment_folder_of_an_impossible_name_is_answered():
    with pytest.raises(ConfigError, match="no such experiment folder"):
        evaluate("x" * 5000)


def test_damaged_params_and_provenance_are_named(exp_dir):
    paths = ExperimentPaths(exp_dir)
    paths.provenance.write_text('{"gin_bindings": 3}')
    with pytest.raises(ConfigError, match="provenance.json: damaged .gin_bindings is not a list"):
        evaluate(exp_dir)
    paths.provenance.unlink()
    paths.params.write_bytes(b"x = 1\0")
    with pytest.raises(ConfigError, match="params.py(:1)?: not valid Python"):
        evaluate(exp_dir)


def test_long_list_of_checkpoints_is_shortened(tmp_path):
    paths = ExperimentPaths(tmp_path)
    for number in range(20):
        paths.policy_checkpoint(number).mkdir(parents=True)
    with pytest.raises(ConfigError) as error:
        find_checkpoint(paths, "x")
    assert "0000000003, ..., policy_checkpoint_0000000016" in str(error.value)
    assert "(20 in all)" in str(error.value)


def test_experiment_without_folder_or_policies_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="missing: no such experiment folder"):
        evaluate(tmp_path / "missing")
    (tmp_path / "episodes").mkdir()
    with pytest.raises(ConfigError, match="policies has no checkpoint yet"):
        evaluate(tmp_path)


def test_table_csv_and_videos(exp_dir, capsys):
    assert evaluate(exp_dir, num_episodes=2) == EXIT_FINISHED
    folder = exp_dir / "videos" / "policy_checkpoint_0000000100"
    rows = episodes(exp_dir)
    assert [(row["episode"], row["length"], row["video"]) for row in rows] == [
        ("0", "20", "episode_0.mp4"), ("1", "20", "episode_1.mp4"),
    ]  # fmt: skip
    assert sorted(path.name for path in folder.iterdir()) == [
        "episode_0.mp4", "episode_1.mp4", "episodes.csv",
    ]  # fmt: skip
    first, second = (float(row["return"]) for row in rows)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("policy_checkpoint_0000000100, seed 0")
    assert [line.split() for line in lines[2:4]] == [
        ["0", f"{first:.6g}", "20", "-"], ["1", f"{second:.6g}", "20", "-"],
    ]  # fmt: skip
    # The standard error of two is half their distance: |a - b| / sqrt(2) / sqrt(2).
    mean, error = (first + second) / 2, abs(first - second) / 2
    assert lines[4] == f"mean return {mean:.6g}, standard error {error:.4g}"
    assert lines[-1] == f"written to {folder}"


def test_policies_beside_each_other_are_one_film_of_the_same_episodes(exp_dir, capsys):
    first, second = "policy_checkpoint_0000000100", "policy_checkpoint_0000000050"
    own = returns(exp_dir)
    evaluate(exp_dir, num_episodes=2, checkpoint=second)
    rows = episodes(exp_dir, second)
    assert evaluate(exp_dir, num_episodes=2, beside=(second,)) == EXIT_FINISHED
    assert [row["return"] for row in episodes(exp_dir, first)] == own
    assert episodes(exp_dir, second) == rows
    folder = exp_dir / "videos" / "side_by_side" / "0000000100_0000000050"
    assert sorted(path.name for path in folder.iterdir()) == ["episode_0.mp4", "episode_1.mp4"]
    assert capsys.readouterr().out.splitlines()[-1] == f"next to each other in {folder}"
    frames = imageio_ffmpeg.read_frames(str(folder / "episode_0.mp4"))
    facts = next(frames)
    # Pendulum's frames are 500 x 500; below a label of 28 lines, with 4 columns between them.
    assert facts["source_size"] == (500 + 4 + 500, 28 + 500)
    frames = [np.frombuffer(each, np.uint8).reshape(528, 1004, 3) for each in frames]
    assert len(frames) == CONFIG["horizon"]
    label, left, right = frames[-1][:28], frames[-1][28:, :500], frames[-1][28:, 504:]
    assert label.min() < 30 and label.max() > 200  # white on black
    assert left.mean() > 200 and right.mean() > 200  # red on white


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"beside": ("x",)}, r"has no checkpoint 'x' \(--beside\)"),
        ({"beside": ("policy_checkpoint_0000000100",)}, "0100 is .*, which is filmed already"),
        ({"beside": ("policy_checkpoint_0000000050",) * 2}, "0050 is .*, which is filmed already"),
        ({"beside": ("policy_checkpoint_0000000050",), "video": False}, "--novideo"),
        ({"camera": "top"}, "PendulumEnv has no choice of cameras"),
        ({"view": True}, "--view shows a window, and there is no display"),
    ],
)
def test_films_that_cannot_be_are_refused_and_leave_nothing(exp_dir, flags, message, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match=message):
        evaluate(exp_dir, **flags)
    assert not (exp_dir / "videos").exists()


def test_episodes_are_seen_in_a_window_and_end_with_it(exp_dir, tmp_path, monkeypatch, capsys):
    install_xvfb()
    display = VirtualDisplay(tmp_path)
    monkeypatch.setenv("DISPLAY", display.name)
    for name in ("WAYLAND_DISPLAY", "SDL_VIDEODRIVER", "SDL_AUDIODRIVER"):
        monkeypatch.setenv(name, "")  # to be as it was in the end
        monkeypatch.delenv(name)
    seen = []

    class Looker:
        def __bool__(self):
            if not seen and (display.screen() == 255).all(axis=-1).sum() > 500 * 500 // 2:
                seen.append(display.close_windows())
            return False

    try:
        code = evaluate(exp_dir, num_episodes=1000, video=False, view=True, stop=Looker())
    finally:
        display.close()
    assert seen == [1]  # Pendulum's own window, of the same process, is not there
    assert code == EXIT_STOPPED
    assert " of 1000 episodes" in capsys.readouterr().out
    assert "SDL_VIDEODRIVER" in os.environ  # for Pendulum


def test_seed_decides_the_returns_and_filming_does_not(exp_dir):
    filmed = returns(exp_dir, video=True)
    assert filmed == returns(exp_dir) == returns(exp_dir, num_episodes=3)[:2]
    assert filmed != returns(exp_dir, seed=1)


def test_gin_bindings_of_the_run_are_in_force(exp_dir):
    """Here they make the network another one than the checkpoint's."""
    provenance = {
        "gin_bindings": ["TrainParams.actor_fc_layer_params = (4,)"],
        "params_dir": str(exp_dir),
    }
    ExperimentPaths(exp_dir).provenance.write_text(json.dumps(provenance))
    for params in (None, str(exp_dir / "params.py")):
        with pytest.raises(ConfigError, match=r"another network.*\[3, 8\].*\[3, 4\]"):
            evaluate(exp_dir, params=params)


def test_given_params_and_config_replace_those_of_the_run(exp_dir, tmp_path):
    (tmp_path / "mine.py").write_text(PARAMS)
    (tmp_path / "mine.json").write_text('{"horizon": 7}')
    for name in ("params.py", "config.json"):
        (exp_dir / name).unlink()
    params, config = str(tmp_path / "mine.py"), str(tmp_path / "mine.json")
    evaluate(exp_dir, num_episodes=1, video=False, params=params, config=config)
    assert episodes(exp_dir)[0]["length"] == "7"


@pytest.mark.parametrize(
    ("name", "message"),
    [("params.py", "params.py: no such params file"), ("config.json", "config.json: cannot read")],
)
def test_missing_file_of_the_run_is_named(exp_dir, name, message):
    (exp_dir / name).unlink()
    with pytest.raises(ConfigError, match=message):
        evaluate(exp_dir)


def test_results_that_cannot_be_written_are_refused_at_once(exp_dir):
    (exp_dir / "videos").write_text("in the way")
    with pytest.raises(ConfigError, match="Cannot write the results to .*videos"):
        evaluate(exp_dir)


@pytest.mark.fault_row("disk full")
def test_results_that_do_not_fit_on_the_disk_are_one_message_with_the_place(exp_dir, capsys):
    with small_disk(4 << 20) as disk:
        full = pathlib.Path(shutil.copytree(exp_dir, disk.folder / "pendulum"))
        folder = full / "videos" / "policy_checkpoint_0000000100"
        folder.mkdir(parents=True)
        disk.fill()
        with pytest.raises(ConfigError, match=f"Cannot write the results to {folder}: No space"):
            evaluate(full, num_episodes=2)
        assert list(folder.iterdir()) == []
        output = capsys.readouterr().out
        assert output.count("DISK FULL: film does not fit, 0 B free in ") == 1
        assert "mean return " in output


def test_environment_that_does_not_render_is_evaluated_without_video(exp_dir, capsys):
    (exp_dir / "params.py").write_text(
        PARAMS.replace("        return ", "        environment = ")
        + "        environment.render = refuse\n        return environment\n\n"
        + "def refuse(mode):\n    raise NotImplementedError\n"
    )
    assert evaluate(exp_dir, num_episodes=2) == EXIT_FINISHED
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "ideo of" in line] == [
        "No video of episode_0 and later: the environment does not implement render('rgb_array')."
    ]
    assert [row["video"] for row in episodes(exp_dir)] == ["", ""]


def test_stop_keeps_the_complete_episodes(exp_dir, capsys):
    class StopAfter30Looks:  # in the middle of the second episode
        num_looks = 0

        def __bool__(self):
            self.num_looks += 1
            return self.num_looks > 30

    code = evaluate(exp_dir, video=False, stop=StopAfter30Looks())
    assert code == EXIT_STOPPED
    assert [row["length"] for row in episodes(exp_dir)] == ["20"]
    assert "stopped after 1 of 5 episodes\n" in capsys.readouterr().out


BREAKS = """
    num_steps = 0

    def env_ctor(self, *args, seed=None, **kwargs):
        import gym

        outer = self

        class Breaks(gym.Wrapper):
            def step(self, action):
                outer.num_steps += 1
                if outer.num_steps > 50:  # in the third episode
                    raise RuntimeError("the motor is gone")
                return super().step(action)

        return gym_adapter.GymEnvironment(Breaks(gym.make("Pendulum-v1")), seed=seed)
"""


def test_an_error_of_the_simulator_keeps_the_complete_episodes(exp_dir, capsys):
    ExperimentPaths(exp_dir).params.write_text(PARAMS + BREAKS)
    with pytest.raises(UserCodeError, match="the motor is gone"):
        evaluate(exp_dir)
    rows = episodes(exp_dir)
    assert [(row["length"], row["video"]) for row in rows] == [
        ("20", "episode_0.mp4"), ("20", "episode_1.mp4"),
    ]  # fmt: skip
    output = capsys.readouterr().out
    mean = sum(float(row["return"]) for row in rows) / 2
    assert f"stopped after 2 of 5 episodes\nmean return {mean:.6g}, standard error" in output


def test_films_of_an_earlier_evaluation_go_with_its_table(exp_dir):
    folder = exp_dir / "videos" / "policy_checkpoint_0000000100"
    evaluate(exp_dir, num_episodes=3)
    own = [folder / name for name in ("episode_007.mp4", "episode_1.mp4.txt", "my.mp4")]
    for path in own:
        path.write_text("mine")
    kept = {path.name for path in own} | {"episodes.csv"}

    class StopAtOnce:
        def __bool__(self):
            return True

    assert evaluate(exp_dir, stop=StopAtOnce(), seed=1) == EXIT_STOPPED
    assert len(episodes(exp_dir)) == 3  # without a complete episode, nothing is replaced
    evaluate(exp_dir, num_episodes=1, seed=1)
    assert [(row["seed"], row["video"]) for row in episodes(exp_dir)] == [("1", "episode_0.mp4")]
    assert {path.name for path in folder.iterdir()} == kept | {"episode_0.mp4"}
    evaluate(exp_dir, num_episodes=1, video=False)
    assert {path.name for path in folder.iterdir()} == kept


def test_policies_that_are_replaced_meanwhile_are_read_before(exp_dir, monkeypatch):
    first, second = "policy_checkpoint_0000000100", "policy_checkpoint_0000000050"
    paths = ExperimentPaths(exp_dir)
    evaluate(exp_dir, num_episodes=1, video=False, checkpoint=second)
    expected = episodes(exp_dir, second)
    run_episodes = evaluator.run_episodes

    def run_and_replace(*arguments):
        if (exp_dir / "policies/checkpoints" / second).exists():
            shutil.rmtree(paths.policy_checkpoint(50))
        return run_episodes(*arguments)

    monkeypatch.setattr(evaluator, "run_episodes", run_and_replace)
    assert evaluate(exp_dir, num_episodes=1, checkpoint=first, beside=(second,)) == EXIT_FINISHED
    assert [row["return"] for row in episodes(exp_dir, second)] == [expected[0]["return"]]


def test_a_stop_ends_the_joining_of_films(exp_dir, capsys, monkeypatch):
    folder = exp_dir / "videos" / "side_by_side" / "0000000100_0000000050"
    folder.mkdir(parents=True)
    (folder / "episode_7.mp4").touch()  # of an earlier evaluation
    joined, is_stopped = side_by_side.join_films, []

    def join(films, path, should_stop):
        made = joined(films, path, should_stop)
        is_stopped.append(True)  # in the second film
        return made

    monkeypatch.setattr(side_by_side, "join_films", join)
    beside = ("policy_checkpoint_0000000050",)
    assert evaluate(exp_dir, is_stopped, num_episodes=3, beside=beside) == EXIT_STOPPED
    assert [path.name for path in folder.iterdir()] == ["episode_0.mp4"]
    assert capsys.readouterr().out.splitlines()[-1] == "stopped after joining 1 of 3 films"


@pytest.mark.system
def test_program_runs_without_display_and_reverb_or_on_macos_and_repeats_itself(exp_dir):
    expected = returns(exp_dir)
    for script in (WITHOUT_REVERB, LIKE_MACOS):
        result = run_program("--exp_dir", str(exp_dir), "--num_episodes", "2", script=script)
        assert (result.returncode, result.stderr) == (EXIT_FINISHED, "")
        rows = episodes(exp_dir)
        assert [row["return"] for row in rows] == expected
        assert [row["video"] for row in rows] == ["episode_0.mp4", "episode_1.mp4"]
    assert f"mean return {sum(map(float, expected)) / 2:.6g}" in result.stdout


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--exp_dir=x", "--novidoe"],
            "run.py: --novidoe is not a flag. Did you mean --novideo? See --help.",
        ),
        (["--exp_dir", "missing"], "run.py: missing: no such experiment folder."),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_78(flags, message):
    result = run_program(*flags)
    assert (result.returncode, result.stderr) == (EXIT_CONFIG, message + "\n")


WRAPPED = PARAMS.replace(
    'gym_adapter.load("Pendulum-v1", seed=seed)', "gym_adapter.GymEnvironment(WRAPPER, seed=seed)"
)


def test_statistics_that_the_environment_learns_are_named_above_the_table(exp_dir, capsys):
    wrapper = "gym.wrappers.NormalizeObservation(gym.make('Pendulum-v1'))"
    params = "import gym\n" + WRAPPED.replace("WRAPPER", wrapper)
    ExperimentPaths(exp_dir).params.write_text(params)
    assert evaluate(exp_dir, num_episodes=1, video=False) == EXIT_FINISHED
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("NOTE: The environment learns statistics while it runs (Normalize")
    assert "set normalize_observations = True" in first and not any("NOTE" in line for line in rest)


def test_an_evaluation_acts_on_no_nan_and_says_where_it_is(exp_dir):
    wrapper = "gym.wrappers.TransformObservation(gym.make('Pendulum-v1'), self.observe)"
    params = (
        "import gym\n"
        + WRAPPED.replace("WRAPPER", wrapper)
        + """
    count = 0

    def observe(self, observation):
        self.count += 1
        return observation if self.count < 4 else observation * float("nan")
"""
    )
    ExperimentPaths(exp_dir).params.write_text(params)
    with pytest.raises(
        ConfigError, match="^observation is not finite at env step 3 of the episode"
    ):
        evaluate(exp_dir, num_episodes=1, video=False)
