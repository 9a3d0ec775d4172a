"""`sac new` and `sac train` with a Unity build."""

import pathlib
import sys

import numpy as np
import psutil
import pytest

from tfagents_system.commands.new import new
from tfagents_system.commands.projects.environment_options import EnvironmentOptions
from tfagents_system.commands.projects.training_project import project_of
from tfagents_system.commands.train import train
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.params_loader import load_params
from tfagents_system.core.settings.env_config import load_env_config
from tfagents_system.environments.closing import closed_at_end
from tfagents_system.environments.construction import make_eval_environment
from tfagents_system.environments.guest_environment import as_made

STAND_IN = pathlib.Path(__file__).parents[2] / "environments" / "unity" / "stand_in.py"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_build(folder, task):
    path = folder / "BallGame.x86_64"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} --task {task} "$@"\n')
    path.chmod(0o755)


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_project_has_the_specs_and_needs_no_build_for_them(folder):
    make_build(folder, "grid")
    variables = project_of("unity:BallGame.x86_64", None, EnvironmentOptions())
    assert str(variables) == "ball_game_variables.sh"
    config = load_env_config(folder / "ball_game_config.json")
    assert [sensor["name"] for sensor in config["specs"]["sensors"]] == ["camera", "goal"]
    params = load_params(folder / "ball_game_params.py", config, [])
    assert params.sac_log_alpha == -3.0  # of discrete actions
    assert params.actor_fc_layer_params == (128, 128)  # a layer is generated from goals
    (folder / "BallGame.x86_64").rename(folder / "moved")
    before = set(psutil.Process().children(recursive=True))
    environment = make_eval_environment(params, seed=1)
    assert environment.observation_spec()["camera"].shape == (40, 40, 3)
    assert set(psutil.Process().children(recursive=True)) <= before
    (folder / "moved").rename(folder / "BallGame.x86_64")
    assert environment.reset().observation["goal"].sum() == 1
    environment.close()


def test_one_of_several_behaviors_is_chosen(folder):
    make_build(folder, "ball,hybrid")
    with pytest.raises(ConfigError, match=r"behaviors 3DBall\?team=0, Hybrid\?team=0; expected"):
        new("ball", from_="unity:BallGame.x86_64")
    assert files(folder) == ["BallGame.x86_64"]
    new("ball", from_="unity:BallGame.x86_64", env_kwargs=("behavior=Hybrid", "num_areas=2"))
    config = load_env_config(folder / "ball_config.json")
    assert config["specs"]["name"] == "Hybrid?team=0"
    params = load_params(folder / "ball_params.py", config, [])
    assert params.sac_log_alpha == 0.0
    environment = make_eval_environment(params, seed=1)
    assert sorted(environment.action_spec()) == ["continuous", "discrete"]
    time_step = environment.reset()
    action = {"continuous": np.zeros(2, np.float32), "discrete": np.zeros(2, np.int32)}
    assert float(environment.step(action).reward) == pytest.approx(0.1)
    assert time_step.observation["action_mask"].shape == (5,)
    environment.close()


def test_settings_of_mlagents_for_a_build(folder):
    make_build(folder, "ball,hybrid")
    (folder / "trainer.yaml").write_text(
        "behaviors:\n  Hybrid:\n    trainer_type: sac\n    hyperparameters: {batch_size: 77}\n"
    )
    new("ball", from_="unity:BallGame.x86_64", mlagents=pathlib.Path("trainer.yaml"),
        behavior="Hybrid")  # fmt: skip
    config = load_env_config(folder / "ball_config.json")
    assert config["specs"]["name"] == "Hybrid?team=0"
    assert load_params(folder / "ball_params.py", config, []).train_batch_size == 77


BUILD_SETTINGS = """behaviors: {3DBall: {trainer_type: sac}}
env_settings: {num_areas: 2, timeout_wait: 90, env_args: [--agents, 3], base_port: 5005}
engine_settings: {time_scale: 4, width: 100, no_graphics: true}
"""


def test_build_settings_of_mlagents_reach_the_build(folder, capsys):
    make_build(folder, "ball")
    (folder / "trainer.yaml").write_text(BUILD_SETTINGS)
    new("ball", from_="unity:BallGame.x86_64", mlagents=pathlib.Path("trainer.yaml"),
        env_kwargs=("num_areas=1",))  # fmt: skip
    shown = capsys.readouterr().out
    assert "Without effect here: env_settings: base_port.\n" in shown
    assert "engine_settings" not in shown
    params = (folder / "ball_params.py").read_text()
    assert '"num_areas": 1' in params  # what the command line says wins
    assert "\"engine\": {'time_scale': 4.0, 'width': 100.0}" in params
    assert "\"arguments\": ('--agents', '3', '-nographics', '-batchmode')" in params
    loaded = load_params(
        folder / "ball_params.py", load_env_config(folder / "ball_config.json"), []
    )
    environment = make_eval_environment(loaded, seed=1)
    with closed_at_end(environment):
        assert as_made(environment).num_slots == 1 * 3


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("env_settings.num_areas", "0"),
        ("env_settings.num_areas", "1.5"),
        ("env_settings.env_args", "word"),
        ("engine_settings.no_graphics", "1"),
        ("engine_settings.time_scale", "fast"),
    ],
)
def test_wrong_build_settings_of_mlagents_name_file_and_key(folder, key, value):
    make_build(folder, "ball")
    part, name = key.split(".")
    (folder / "trainer.yaml").write_text(
        f"behaviors: {{3DBall: {{trainer_type: sac}}}}\n{part}: {{{name}: {value}}}\n"
    )
    with pytest.raises(ConfigError, match=rf"trainer.yaml: {key} is '?{value}'?; expected"):
        new("ball", from_="unity:BallGame.x86_64", mlagents=pathlib.Path("trainer.yaml"))
    assert files(folder) == ["BallGame.x86_64", "trainer.yaml"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"from_": "unity"}, "--from unity needs the path of a build: --from unity:BUILD"),
        ({"from_": "unity:none"}, "Unity build none is not a file; expected an executable"),
        ({"env_kwargs": ("num_area=2",)}, "no argument 'num_area'. Did you mean num_areas"),
        ({"env_kwargs": ("engine={'time_scal':1}",)}, "no setting 'time_scal'. Did you mean time"),
        ({"wrap": ("a:B",)}, "--wrap does not go with unity:BallGame.x86_64"),
        ({"env_kwargs": ("arguments=('--api','2.0.0')",)}, "speaks version 2.0.0"),
    ],
)
def test_wrong_arguments_write_nothing(folder, arguments, expected):
    make_build(folder, "ball")
    with pytest.raises(ConfigError, match=expected):
        new("ball", **({"from_": "unity:BallGame.x86_64"} | arguments))
    assert files(folder) == ["BallGame.x86_64"]


def test_env_and_unity_exclude_each_other():
    with pytest.raises(ConfigError, match="either --env or --unity"):
        train(env="Pendulum-v1", unity="BallGame.x86_64")
