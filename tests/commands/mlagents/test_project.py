"""`sac new --from mlagents:FILE`, and `--mlagents FILE`: projects with a behavior's settings."""

import json
import pathlib
import subprocess

import numpy as np
import pytest

from tfagents_system.agents.construction import make_agent
from tfagents_system.collection.rollouts import run_episode
from tfagents_system.commands.mlagents.document import Sources, read_document
from tfagents_system.commands.mlagents.project import convert_project
from tfagents_system.commands.mlagents.unity import build_settings
from tfagents_system.commands.new import new
from tfagents_system.commands.projects.environment_ids import EnvironmentId
from tfagents_system.commands.projects.environment_options import EnvironmentOptions
from tfagents_system.commands.projects.training_project import project_of
from tfagents_system.commands.train import train
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.params_loader import load_params
from tfagents_system.core.settings.curriculum import Curriculum
from tfagents_system.core.settings.env_config import load_env_config
from tfagents_system.environments.construction import make_eval_environment
from tfagents_system.launch.checks.params_check import check_params_file
from tfagents_system.policies.acting import AgentPolicies

TRAINER = """
behaviors:
  Ball "3D":
    trainer_type: sac
    hyperparameters: {batch_size: 64, buffer_size: 200000, steps_per_update: 10}
    network_settings: {normalize: true, hidden_units: 64}
    reward_signals: {extrinsic: {strength: 2, gamma: 0.9}, curiosity: {strength: 0.1}}
    max_steps: 100000
    time_horizon: 1000
environment_parameters:
  mass: {sampler_type: uniform}
env_settings: {num_envs: 3, seed: 7, base_port: 5005}
engine_settings: {time_scale: 20}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ball.yaml").write_text(TRAINER)
    return tmp_path


def test_the_files_have_settings_parameters_and_variables(folder, capsys):
    new("ball", from_="mlagents:ball.yaml", horizon=500)
    config = load_env_config(folder / "ball_config.json")
    assert config == {
        "horizon": 500, "curriculum": {"mass": {"sampler": "uniform", "low": 0.0, "high": 1.0}}
    }  # fmt: skip
    assert Curriculum.from_config(config["curriculum"], "").samplers.keys() == {"mass"}
    assert check_params_file(folder / "ball_params.py", (folder,)) == []
    params = load_params(folder / "ball_params.py", config, [])
    assert (params.num_iter, params.num_steps_per_iter) == (100_000 // 500, 500 // 10)
    assert (params.n_episodes_in_buffer, params.train_batch_size) == (200_000 // 500, 64)
    assert params.reward_signals["extrinsic"] == {"strength": 2.0, "discount": 0.9}
    assert params.normalize_observations
    with pytest.raises(NotImplementedError, match="Ball '3D'"):
        params.env_ctor()
    variables = "set -a; . ./ball_variables.sh; echo $SAC_EXP_NAME $SAC_SEED"
    shown = subprocess.run(
        ["bash", "-c", f"{variables} $SAC_NUM_COLLECT_WORKERS"], capture_output=True, text=True
    )
    assert shown.stdout == "ball 7 3\n"
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "ball_params.py",
        "ball_config.json",
        "ball_variables.sh",
        "Without effect here: time_horizon 1000: an episode's steps are stored one by one, and "
        "values bootstrap at its end.",
        "Without effect here: env_settings: base_port.",
        "Without effect here: engine_settings: time_scale.",
        "What remains: env_ctor in ball_params.py returns no environment yet.",
        "Edit them, then: sac train ball_variables.sh",
    ]


def build_of(name):
    specs = {"name": name, "num_continuous": 1, "branches": [], "sensors": []}
    return EnvironmentId("unity", "builds/Ball", 1000, config={"specs": specs})


def converted(folder, text, environment=None, behavior=None, **kwargs):
    (folder / "wall.yaml").write_text(text)
    options = EnvironmentOptions(kwargs, mlagents=Sources(folder / "wall.yaml", behavior))
    return convert_project(options.mlagents, "wall", environment, None, options)


CONSTANTS = """
behaviors: {Wall: {trainer_type: sac}}
environment_parameters:
  mass: 3
  gravity: {sampler_type: constant, sampler_parameters: {value: 5}}
  scale: {sampler_type: uniform}
"""


def test_constants_are_arguments_of_a_build_so_that_evaluations_have_them_too(folder):
    made = converted(folder, CONSTANTS, build_of("Wall?team=0"), parameters={"mass": 4, "size": 2})
    # What the command line says wins.
    assert "\"parameters\": {'mass': 4, 'gravity': 5.0, 'size': 2}" in made.params
    assert json.loads(made.config)["curriculum"].keys() == {"scale"}
    assert not any("Constant" in remark for remark in made.remarks)


def test_constants_of_another_environment_are_noted(folder):
    made = converted(folder, CONSTANTS)
    assert json.loads(made.config)["curriculum"].keys() == {"mass", "gravity", "scale"}
    assert made.remarks[0] == (
        "Constant environment_parameters (mass, gravity) are set in collection alone; give them to "
        "the environment in env_ctor for evaluations."
    )


SEVERAL = """
behaviors:
  Wall: {trainer_type: sac, hyperparameters: {batch_size: 11}}
  Floor: {trainer_type: sac, hyperparameters: {batch_size: 22}}
"""
DEFAULTS = "default_settings: {trainer_type: sac, hyperparameters: {batch_size: 33}}\n"


@pytest.mark.parametrize(
    ("text", "name", "behavior", "batch_size"),
    [
        (SEVERAL, "Floor?team=0", None, 22),
        (SEVERAL, "Floor?team=0", "Wall", 11),
        (SEVERAL, "Floor?team=0", "Floor?team=0", 22),
        (DEFAULTS, "Floor?team=0", None, 33),
        (DEFAULTS + SEVERAL, "Roof?team=1", None, 33),
        (DEFAULTS + SEVERAL, "Wall", None, 11),
    ],
)
def test_the_section_is_that_of_the_builds_behavior(folder, text, name, behavior, batch_size):
    made = converted(folder, text, build_of(name), behavior)
    assert f"train_batch_size = {batch_size}  #" in made.params
    named = name.split("?")[0]
    expected = [
        f"{folder / 'wall.yaml'} has no section of {named}; its settings are those of "
        "default_settings."
    ]
    assert made.remarks == (expected if batch_size == 33 else [])


@pytest.mark.parametrize("text", [SEVERAL, CONSTANTS])
def test_a_section_of_another_behavior_than_the_builds_is_refused(folder, text):
    message = (
        "has no section of Roof, the behavior of unity:builds/Ball, and no default_settings; it "
        "has Wall.* Rename a section, or"
    )
    with pytest.raises(ConfigError, match=message):
        converted(folder, text, build_of("Roof?team=0"))


def test_a_build_without_graphics_starts_as_with_mlagents(folder):
    (folder / "wall.yaml").write_text(
        CONSTANTS
        + "env_settings: {env_args: [--agents, 3]}\nengine_settings: {no_graphics: true}\n"
    )
    assert build_settings(read_document(folder / "wall.yaml"), {})["arguments"] == (
        "--agents", "3", "-nographics", "-batchmode",
    )  # fmt: skip


def test_a_converted_project_says_where_each_value_comes_from(folder):
    new("ball", from_="mlagents:ball.yaml")
    text = (folder / "ball_params.py").read_text()
    assert "    num_steps_per_iter = 100  # steps_per_update 10\n" in text
    assert "    # engine_settings: time_scale\n" in text


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"from_": "mlagents:none.yaml"}, "none.yaml: cannot read the file of ML-Agents"),
        ({"behavior": "Bal"}, "has no behavior 'Bal'."),
        ({"from_": "own", "behavior": "Ball"}, "--sampler need a file of ML-Agents"),
        ({"mlagents": pathlib.Path("ball.yaml")}, "either --from mlagents:FILE or --mlagents"),
        ({"wrap": ("a:B",)}, "--env_kwargs and --wrap need --from, with an environment"),
    ],
)
def test_wrong_arguments_write_nothing(folder, arguments, expected):
    with pytest.raises(ConfigError, match=expected):
        new("ball", **({"from_": "mlagents:ball.yaml"} | arguments))
    assert [path.name for path in folder.iterdir()] == ["ball.yaml"]


def test_a_value_that_is_not_allowed_is_refused_with_its_key(folder):
    (folder / "ball.yaml").write_text(TRAINER.replace("batch_size: 64", "tau: 2"))
    with pytest.raises(ConfigError, match="tau 2: target_update_tau is 2.0; expected a number"):
        new("ball", from_="mlagents:ball.yaml")
    assert [path.name for path in folder.iterdir()] == ["ball.yaml"]


MEMORY = "network_settings: {memory: {sequence_length: 80, memory_size: 8}, "


@pytest.mark.parametrize(
    ("old", "new_text", "expected"),
    [
        (
            "buffer_size: 200000",
            "buffer_size: 900, buffer_init_steps: 1000",
            # Of 50 env steps each: 900 / 50 = 18 episodes, and 1000 / 50 = 20.
            "n_buffer_init_episodes (20) exceeds n_episodes_in_buffer (18): the replay buffer "
            "could never hold the episodes that training waits for. Here, n_episodes_in_buffer is "
            "of buffer_size 900; n_buffer_init_episodes is of buffer_init_steps 1,000; an episode "
            "has 50 env steps.",
        ),
        (
            "network_settings: {",
            MEMORY,
            "recurrent_sequence_length (80) exceeds the horizon (50): no episode would hold one "
            "sequence. Here, recurrent_sequence_length is of sequence_length 80; an episode has "
            "50 env steps.",
        ),
    ],
)
def test_settings_that_do_not_fit_together_are_refused_in_the_files_names(
    folder, old, new_text, expected
):
    (folder / "ball.yaml").write_text(TRAINER.replace(old, new_text))
    with pytest.raises(ConfigError) as error:
        new("ball", from_="mlagents:ball.yaml", horizon=50)
    assert str(error.value) == f'ball.yaml: Ball "3D": {expected}'
    assert [path.name for path in folder.iterdir()] == ["ball.yaml"]


@pytest.mark.parametrize(
    ("old", "new_text", "expected"),
    [
        ("num_envs: 3", "num_envs: 0", "env_settings.num_envs is 0; expected an integer from 1"),
        ("num_envs: 3", "num_envs: 2.5", "env_settings.num_envs is 2.5; expected an integer"),
        ("seed: 7", "seed: 9000000000", "env_settings.seed is 9000000000; expected an integer"),
        (
            "{sampler_type: uniform}",
            "{sampler_type: uniform, sampler_parameters: {min_value: 3, max_value: 2}}",
            "environment_parameters.mass, here: curriculum.mass has low 3.0 above high 2.0; expec",
        ),
        (
            "{sampler_type: uniform}",
            "{curriculum: [{value: 1, completion_criteria: {measure: progress, threshold: 1}}, "
            "{value: 2}]}",
            "environment_parameters.mass, here: curriculum.mass.lessons.0.until.threshold is 1.0;",
        ),
    ],
)
def test_parts_that_no_run_could_have_are_refused_with_their_keys(folder, old, new_text, expected):
    (folder / "ball.yaml").write_text(TRAINER.replace(old, new_text))
    with pytest.raises(ConfigError) as error:
        new("ball", from_="mlagents:ball.yaml")
    assert str(error.value).startswith(f"ball.yaml: {expected}")
    assert [path.name for path in folder.iterdir()] == ["ball.yaml"]


def test_an_environment_of_another_simulator_gets_the_settings(folder):
    (folder / "ball.yaml").write_text(TRAINER.partition("environment_parameters")[0])
    path = pathlib.Path("ball.yaml")
    new("p", from_="Pendulum-v1", env_kwargs=("g=5.0",), mlagents=path)
    config = load_env_config(folder / "p_config.json")
    assert config == {"horizon": 200}  # the environment's own
    params = load_params(folder / "p_params.py", config, [])
    assert (params.num_iter, params.num_steps_per_iter) == (100_000 // 200, 200 // 10)
    environment = make_eval_environment(params, seed=1)
    agent, _ = make_agent(params, environment)
    policies = AgentPolicies(agent, np.random.default_rng(1))
    assert run_episode(environment, policies.collect, 200).length == 200
    environment.close()


def test_the_same_file_goes_on_and_another_is_refused(folder):
    (folder / "ball.yaml").write_text(TRAINER.partition("environment_parameters")[0])

    def project(trainer):
        sources = Sources(pathlib.Path(trainer))
        return project_of("Pendulum-v1", "p", EnvironmentOptions(mlagents=sources))

    variables = project("ball.yaml")
    assert project("ball.yaml") == variables
    with pytest.raises(ConfigError, match="--mlagents ball.yaml, and now it is --mlagents other"):
        project("other.yaml")


def test_training_needs_an_environment(folder):
    with pytest.raises(ConfigError, match="--mlagents needs --env; otherwise, the files of the pr"):
        train(mlagents=pathlib.Path("ball.yaml"))
