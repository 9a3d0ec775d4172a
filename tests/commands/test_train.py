"""`sac train`: what it makes of its arguments, and whole runs from an empty folder."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import gymnasium
import pytest
from registering_modules import registering_module
from run_files import write_finished_run

from tfagents_system.agents.table import ALGORITHMS
from tfagents_system.commands import train
from tfagents_system.commands.bindings import (
    algorithm_in,
    bindings_of,
    with_bindings,
)
from tfagents_system.commands.projects import templates, training_project
from tfagents_system.commands.projects.environment_ids import EnvironmentId, find_environment
from tfagents_system.commands.projects.environment_options import EnvironmentOptions
from tfagents_system.commands.projects.environment_trial import try_environment
from tfagents_system.commands.projects.training_project import project_of
from tfagents_system.commands.sweeps.experiments import Task
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch.checks.params_check import check_params_file
from tfagents_system.launch.local.variables import read_variables
from tfagents_system.launch.start import environment_of_runs
from tfagents_system.train_params_base import TrainParamsBase

REPO = pathlib.Path(__file__).parents[2]


def sac(folder, *arguments, timeout=60, python=None, **environ):
    """Returns exit code, output and error output of `sac` in `folder`.

    That of this checkout, or the one that is installed for `python`.
    """
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SAC_", "SLURM_"))}
    done = subprocess.run(
        [python or sys.executable, "-m", "tfagents_system", *map(str, arguments)], cwd=folder,
        env=clean | {"PYTHONPATH": "" if python else str(REPO)} | environ, capture_output=True,
        text=True, timeout=timeout,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("text", "expected", "slug"),
    [
        ("gym:Pendulum-v1", EnvironmentId("gym", "Pendulum-v1", 200), "pendulum"),
        ("MountainCarContinuous-v0", EnvironmentId("gymnasium", "MountainCarContinuous-v0", 999),
         "mountain_car_continuous"),
        ("HalfCheetahBulletEnv-v0", EnvironmentId("pybullet", "HalfCheetahBulletEnv-v0", 1000),
         "half_cheetah_bullet"),
        ("partial:pendulum-va-concat10", EnvironmentId("partial", "pendulum-va-concat10", 200),
         "pendulum_va_concat10"),
        ("partial:walker-walk-pixels", EnvironmentId("partial", "walker-walk-pixels", 500, True),
         "walker_walk_pixels"),
    ],
)  # fmt: skip
def test_environments_are_found_by_their_ids(text, expected, slug):
    assert find_environment(text) == expected
    assert expected.slug == slug


BROKEN = """
import gymnasium

class Arm(gymnasium.Env):
    def __init__(self, **kwargs):
        assert "cable" in kwargs

gymnasium.register("Arm-v0", Arm)
"""


def test_an_environment_of_the_current_folder_that_a_bare_assert_ends_is_named_with_its_line(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "arms_without_cable.py"
    file.write_text(BROKEN)
    environment = find_environment("arms_without_cable:Arm-v0")
    line = BROKEN.splitlines().index('        assert "cable" in kwargs') + 1
    with pytest.raises(ConfigError) as error_info:
        try_environment(environment)
    assert str(error_info.value) == (
        f"arms_without_cable:Arm-v0 cannot be made: AssertionError: no message ({file}:{line})"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gym:Pendulm-v1", "no environment 'gym:Pendulm-v1' in gym. Did you mean gym:Pendulum-v1?"),
        (
            "HalfCheetaBulletEnv-v0",
            "in gymnasium, pybullet, gym, dm_control. Did you mean HalfCheetahBulletEnv-v0?",
        ),
        ("partial:car-flags", "no task partial:car-flags. Did you mean partial:car-flag?"),
        ("pybullet:Walker2DBullet", "in pybullet. Did you mean pybullet:Walker2DBulletEnv-v0?"),
        *(
            (text, f"no environment '{text}'. Expected an id such as Pendulum-v1, one of gymnasi")
            for text in ("", "partial:", ":Pendulum-v1")
        ),
    ],
)
def test_misspelt_environments_are_refused_with_the_nearest(text, message):
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
        find_environment(text)


LAB = """
import gymnasium

class Reach(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

NAMES = "ns_lab/Reach-v0 ns_lab/BulletTrain-v3 cheetah/run-v1 Versionless ns_lab/Bare"
for name in NAMES.split():
    gymnasium.register(name, Reach, max_episode_steps=40)
"""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A folder with a package that registers environments, in which commands are given."""
    with registering_module(tmp_path, monkeypatch, "ns_lab", LAB) as folder:
        yield folder


@pytest.mark.parametrize(
    ("text", "identity", "slug"),
    [
        ("ns_lab:ns_lab/Reach-v0", "gymnasium:ns_lab:ns_lab/Reach-v0", "ns_lab_reach"),
        ("gymnasium:ns_lab:ns_lab/Reach-v0", "gymnasium:ns_lab:ns_lab/Reach-v0", "ns_lab_reach"),
        ("ns_lab:ns_lab/BulletTrain-v3", "gymnasium:ns_lab:ns_lab/BulletTrain-v3",
         "ns_lab_bullet_train"),
        ("ns_lab:cheetah/run-v1", "gymnasium:ns_lab:cheetah/run-v1", "cheetah_run"),
        ("ns_lab:Versionless", "gymnasium:ns_lab:Versionless", "versionless"),
        ("ns_lab:ns_lab/Bare", "gymnasium:ns_lab:ns_lab/Bare", "ns_lab_bare"),
        ("Pendulum-v1", "gymnasium:Pendulum-v1", "pendulum"),
        ("gym:Pendulum-v1", "gym:Pendulum-v1", "pendulum"),
        ("HalfCheetahBulletEnv-v0", "pybullet:HalfCheetahBulletEnv-v0", "half_cheetah_bullet"),
        ("cheetah/run", "dm_control:cheetah/run", "cheetah_run"),
        ("dm_control:cheetah/run", "dm_control:cheetah/run", "cheetah_run"),
        ("partial:pendulum-p", "partial:pendulum-p", "pendulum_p"),
    ],
)  # fmt: skip
def test_the_same_command_finds_its_project_again(lab, monkeypatch, text, identity, slug):
    pytest.importorskip("dm_control", reason="locks/test.lock is not installed")
    variables = project_of(text, None)
    assert variables.name == f"{slug}_variables.sh"
    files = {path: path.read_text() for path in pathlib.Path().glob(f"{slug}_*")}
    assert len(files) == 3
    assert templates.written_for(variables.read_text()) == (text, identity)
    assert project_of(text, None) == variables
    assert project_of(identity, slug) == variables

    variables.write_text(variables.read_text().replace("# Environment: ", "# "))  # of before
    assert project_of(text, None) == variables
    variables.write_text(files[variables])
    with pytest.raises(ConfigError, match=f"{slug}_params.py is not for gym:MountainCarContin"):
        project_of("gym:MountainCarContinuous-v0", slug)

    def is_gone(text):
        raise ConfigError(f"{text} is not installed.")

    monkeypatch.setattr(training_project, "find_environment", is_gone)
    assert project_of(text, None) == variables  # without asking again what it was
    assert {path: path.read_text() for path in files} == files


@pytest.mark.parametrize("horizon", [50, 200, 999, 1000, 5000])
def test_files_of_a_project_are_what_a_start_accepts(tmp_path, horizon):
    environment = EnvironmentId("gym", "Pendulum-v1", horizon)
    params = tmp_path / "p_params.py"
    params.write_text(templates.params_text("Pendulum.", "p", environment, EnvironmentOptions()))
    assert check_params_file(params, (tmp_path,)) == []
    values = {}
    exec(compile(params.read_text(), params, "exec"), values)
    train_params = values["TrainParams"]
    per_iteration = train_params.n_train_episodes_per_iter * horizon
    assert train_params.num_steps_per_iter == per_iteration  # one train step per env step
    assert 0 <= train_params.num_iter * per_iteration - templates.ENV_STEPS < per_iteration
    assert train_params.n_buffer_init_episodes < train_params.n_episodes_in_buffer
    assert json.loads(templates.config_text(environment, EnvironmentOptions())) == {
        "horizon": horizon
    }


def params_of(algorithm, tmp_path, horizon=1000, is_discrete=False):
    environment = EnvironmentId("gym", "Pendulum-v1", horizon, is_discrete=is_discrete)
    text = templates.params_text("P.", "p", environment, EnvironmentOptions(), algorithm)
    path = tmp_path / f"{algorithm}_params.py"
    path.write_text(text)
    assert check_params_file(path, (tmp_path,)) == []
    values = {}
    exec(compile(text, path, "exec"), values)
    return values["TrainParams"]


@pytest.mark.parametrize("algorithm", [None, *ALGORITHMS])
def test_a_new_project_has_the_settings_of_its_algorithm(tmp_path, algorithm):
    params = params_of(algorithm, tmp_path)
    assert params.algorithm == (algorithm or "sac")
    is_xqc = algorithm == "xqc"
    assert params.num_steps_per_iter == 1000 * (2 if is_xqc else 1)
    assert (params.discount, TrainParamsBase.discount) == (1 - 5 / 1000 if is_xqc else 0.99, 0.99)
    assert params.critic_learning_rate == (1e-3 if algorithm in ("xqc", "crossq") else 3e-4)
    has_alpha = algorithm not in ("xqc", "td3", "ddpg")
    assert ("sac_log_alpha" in vars(params)) == has_alpha


@pytest.mark.parametrize(
    ("horizon", "discount"),
    [(20, 0.95), (100, 1 - 5 / 100), (200, 1 - 5 / 200), (1000, 1 - 5 / 1000), (5000, 0.995)],
)
def test_the_discount_of_xqc_follows_the_horizon(tmp_path, horizon, discount):
    assert params_of("xqc", tmp_path, horizon).discount == pytest.approx(discount, abs=5e-5)


def test_choices_have_their_own_settings_with_any_algorithm(tmp_path):
    params = params_of("crossq", tmp_path, is_discrete=True)
    assert (params.algorithm, params.sac_log_alpha, params.num_steps_per_iter) == (
        "crossq", -3.0, 1000
    )  # fmt: skip


@pytest.mark.parametrize("algorithm", ["xqc", "td3"])
def test_an_algorithm_without_such_actions_leaves_no_files(tmp_path, monkeypatch, algorithm):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ConfigError, match=f"'{algorithm}', but an action of CartPole-v1 has choices"
    ):
        project_of("CartPole-v1", None, algorithm=algorithm)
    assert not list(tmp_path.iterdir())
    project_of("CartPole-v1", None, algorithm="crossq")
    assert 'algorithm = "crossq"' in (tmp_path / "cart_pole_params.py").read_text()


@pytest.mark.parametrize(
    ("assignments", "algorithm"),
    [((), None), (("discount=0.9",), None), (("algorithm=td3",), "td3"),
     (("algorithm='xqc'", "TrainParams.algorithm=tqc"), "tqc"), (("algorithm=%MINE",), None)],
)  # fmt: skip
def test_the_algorithm_is_the_last_one_that_the_command_line_names(assignments, algorithm):
    assert algorithm_in(assignments) == algorithm


@pytest.mark.parametrize(
    ("assignment", "binding"),
    [
        ("actor_fc_layer_params=64,32", "TrainParams.actor_fc_layer_params = (64,32)"),
        ("actor_fc_layer_params=(64, 32)", "TrainParams.actor_fc_layer_params = (64, 32)"),
        ("algorithm=td3", "TrainParams.algorithm = 'td3'"),
        ("TrainParams.discount = 5e-1", "TrainParams.discount = 5e-1"),
    ],
)
def test_an_assignment_is_a_binding_of_gin(assignment, binding):
    assert with_bindings({}, bindings_of([assignment])) == {"SAC_GIN_BINDINGS": binding}
    earlier = {"SAC_GIN_BINDINGS": "A.b = 1; C.d = 2", "X": "y"}
    assert with_bindings(earlier, [binding]) == {
        "SAC_GIN_BINDINGS": f"A.b = 1; C.d = 2\n{binding}", "X": "y",
    }  # fmt: skip
    assert with_bindings(earlier, []) == earlier


def test_a_variables_file_sees_and_loses_to_the_variables_of_the_caller(tmp_path):
    file = tmp_path / "v.sh"
    file.write_text('echo hello\n: "${SAC_EXP_NAME:=a}"\nSAC_CONFIG="$HOME_OF_ROBOT/c d.json"\n')
    environ = {"PATH": os.environ["PATH"], "HOME_OF_ROBOT": "/x"}
    assert read_variables(file, environ)["SAC_CONFIG"] == "/x/c d.json"
    assert read_variables(file, environ)["SAC_EXP_NAME"] == "a"
    assert read_variables(file, environ | {"SAC_EXP_NAME": "b"})["SAC_EXP_NAME"] == "b"
    with pytest.raises(ConfigError, match="no such variables file: .*w.sh. In its folder"):
        (tmp_path / "my_variables.sh").touch()
        read_variables(tmp_path / "w.sh", environ)
    file.write_text("exit 3\n")
    with pytest.raises(ConfigError, match="v.sh ended this script"):
        read_variables(file, environ)


def test_flags_win_over_what_a_variables_file_assigns_to_any_caller(tmp_path, monkeypatch):
    file = tmp_path / "v.sh"
    file.write_text("SAC_EXP_NAME=a SAC_SEED=5 SAC_PARAMS=p.py SAC_CONFIG=${SAC_EXP_NAME}.json\n")
    monkeypatch.setattr(os, "environ", dict(os.environ))  # training replaces it
    monkeypatch.setattr(train, "build_if_missing", lambda: None)
    monkeypatch.setattr(train, "start", lambda: 0)
    assert train.train(file, name="b", seed=(7,)) == 0
    names = ("SAC_EXP_NAME", "SAC_SEED", "SAC_PARAMS")
    assert [os.environ[name] for name in names] == ["b", "7", "p.py"]
    base = "from tfagents_system.train_params_base import TrainParamsBase"
    body = "class TrainParams(TrainParamsBase):\n    def env_ctor(self, *args, **kwargs): ..."
    (tmp_path / "arm.py").write_text(f"{base}\n{body}\n")
    (tmp_path / "arm.json").write_text('{"horizon": 9}')
    file.write_text(f"SAC_EXP_NAME=a SAC_PARAMS={tmp_path}/arm.py SAC_CONFIG={tmp_path}/arm.json\n")
    task = Task.read(file, "c", [], (1,))
    assert (task.name, task.environ["SAC_EXP_NAME"]) == ("c", "c")


@pytest.mark.parametrize(
    "content",
    ["\ufeffSAC_EXP_NAME=a\n".encode(), b"X=b\r\nSAC_EXP_NAME=a\r\n",
     "\ufeffSAC_EXP_NAME=a\r\n".encode(), "SAC_EXP_NAME=a\r\n".encode("utf-16")],
    ids=["byte order mark", "CRLF", "both", "UTF-16"],
)  # fmt: skip
def test_a_file_of_windows_is_read_after_the_command_that_the_refusal_names(tmp_path, content):
    file = tmp_path / "it's my variables.sh"
    file.write_bytes(content)
    environ = {"PATH": os.environ["PATH"]}
    with pytest.raises(ConfigError, match="^it's my variables.sh (is UTF-16|has the by)") as raised:
        read_variables(file, environ)
    (message,) = str(raised.value).splitlines()
    remedy = re.search("(sed|iconv) .*", message)[0]
    subprocess.run(remedy, shell=True, check=True, cwd=tmp_path)
    assert read_variables(file, environ)["SAC_EXP_NAME"] == "a"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "sac train: What is to be trained? Give --env or a variables file. See --help."),
        (["v.sh", "--env=gym:Pendulum-v1"], "Give either a variables file or --env."),
        (
            ["--env=gym:Pendulum-v1", "--set", "num_itr=3"],
            "--set: num_itr is not a training parameter. Did you mean num_iter?",
        ),
        (
            ["--env=gym:Pendulum-v1", "--set", "num_iter"],
            "--set is 'num_iter'; expected NAME=VALUE, without spaces around =.",
        ),
        (["--env=gym:Pendulum-v1", "--name=a b"], "'a b' cannot be the name of a project;"),
        (["--env=gym:Pendulum-v1", f"--name={'a' * 201}"], "with a letter first, 200 at most."),
        (
            ["--env=gym:Pendulum-v1", "--horizon=5000000000"],
            "--horizon is '5000000000'; expected an integer >= 1 and <= 1000000000.",
        ),
        (["--sed=3"], "--sed is not a flag. Did you mean --seed?"),
        (
            ["--env=gym:Pendulum-v1", "--num-iter", "5"],
            "--num_iter is not a flag. Did you mean --name? Hyperparameters are set by "
            "--set NAME=VALUE. See --help.",
        ),
        (["no.sh"], "sac train: no such variables file: no.sh."),
        (["Pendulum-v1"], "no such variables file: Pendulum-v1. Did you mean --env Pendulum-v1?"),
        (["--env="], "There is no environment ''. Expected an id such as"),
        (
            ["--env=gym:Pendulum-v1", "--algo=td3", "--set", "TrainParams.algorithm=sac"],
            "--algo is td3, and --set has algorithm=sac: give only one.",
        ),
        (["--env=gym:Pendulum-v1", "--name=a", "--run_id=b"], "Give either --name or --run_id"),
        (["--env=gym:Pendulum-v1", "--seed=-1"], "SAC_SEED is '-1'"),
        (["--env=gym:Pendulum-v1", "--seed", "1", "-1"], "SAC_SEED is '-1'"),
        (["--env=gym:Pendulum-v1", "--extend=5"], "but there is no pendulum here."),
        (["--env=gym:Pendulum-v1", "--extend=0"], "expected an integer >= 1"),
        (["--env=gym:Pendulum-v1", "--initialize_from=logs/a"], "logs/a: no such experiment"),
        (
            ["--env=gym:Pendulum-v1", "--extend=5", "--force_new"],
            "--extend continues an experiment, --force_new starts a new one",
        ),
        (
            ["--env=gym:Pendulum-v1", "--mlagents=ball.yaml", "--algo=td3"],
            "--algo: the settings are those of ML-Agents' file",
        ),
    ],
)
def test_wrong_arguments_are_answered_and_write_nothing(tmp_path, arguments, message):
    code, out, err = sac(tmp_path, "train", *arguments)
    assert (code, out) == (78, "")
    assert message in err and len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_there_is_not_is_refused_with_the_nearest(tmp_path):
    assert sac(tmp_path, "trian") == (
        78, "", "sac: trian is not a command. Did you mean train? See sac --help.\n"
    )  # fmt: skip


def test_version_and_help_of_a_command(tmp_path):
    version = re.search(r'^version = "(.*)"$', (REPO / "pyproject.toml").read_text(), re.M)[1]
    git = ["git", "-C", REPO, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    commit = subprocess.run(git, capture_output=True, text=True).stdout.strip()
    where = f" (commit {commit})" if commit else ""
    assert sac(tmp_path, "--version") == (0, f"sac {version}{where}\n", "")
    assert sac(tmp_path, "help", "list") == sac(tmp_path, "list", "--help")
    assert sac(tmp_path, "help") == sac(tmp_path)


def test_new_writes_a_project_once(tmp_path):
    code, out, err = sac(tmp_path, "new", "cart")
    assert (code, err) == (0, "")
    names = ["cart_config.json", "cart_params.py", "cart_variables.sh"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert out.endswith("Edit them, then: sac train cart_variables.sh\n")
    before = (tmp_path / "cart_params.py").read_text()
    code, _, err = sac(tmp_path, "new", "cart")
    assert (code, err) == (
        78, "sac new: cart_params.py already exists. Choose another name, or move it away.\n"
    )  # fmt: skip
    assert (tmp_path / "cart_params.py").read_text() == before


def test_a_finished_seed_of_other_settings_is_refused_before_any_is_trained(tmp_path):
    if shutil.which("supervise", path=environment_of_runs(os.environ)["PATH"]) is None:
        pytest.skip("setup.sh has not unpacked daemontools")
    assert sac(tmp_path, "new", "cart")[0] == 0
    for seed in (2, 3):
        root = tmp_path / "logs" / f"cart_seed_{seed}"
        files = tmp_path / "cart_params.py", tmp_path / "cart_config.json"
        write_finished_run(root, *files, ["TrainParams.num_iter = 7"], num_iter=7)
    train = ["train", "cart_variables.sh", "--seed", "2", "3"]
    finished = "logs/cart_seed_2 is finished.\nlogs/cart_seed_3 is finished.\n"
    assert sac(tmp_path, *train) == (0, finished, "")
    assert sac(tmp_path, *train, "--set", "num_iter=5") == (0, finished, "")  # extended since
    for setting, message in (
        ("discount=0.5", "discount was not set and is 0.5 now."),
        ("num_iter=8", "num_iter was 7 and is 8 now."),
    ):
        code, out, err = sac(tmp_path, "train", "cart_variables.sh", "--seed", "1", "2", "--set",
                             setting)  # fmt: skip
        assert (code, out) == (78, "") and len(err.splitlines()) == 1
        assert f"logs/cart_seed_2 was trained with other settings: {message}" in err
        assert not (tmp_path / "logs" / "cart_seed_1").exists()


def test_other_weights_than_those_of_a_finished_seed_are_refused(tmp_path):
    assert sac(tmp_path, "new", "cart")[0] == 0
    files = tmp_path / "cart_params.py", tmp_path / "cart_config.json"
    for seed in (1, 2):
        write_finished_run(tmp_path / f"logs/cart_seed_{seed}", *files)
    code, out, err = sac(
        tmp_path, "train", "cart_variables.sh", "--seed", "1", "2", "--initialize_from", "logs/a"
    )
    assert (code, out) == (78, "")
    assert "its weights began as random ones, and --initialize_from is logs/a now" in err


def test_several_seeds_need_a_name_of_the_experiment(tmp_path):
    code, out, err = sac(tmp_path, "train", "--seed", "1", "2", SAC_PARAMS="p.py", SAC_CONFIG="c")
    assert (code, out) == (78, "") and "SAC_EXP_NAME is not set" in err


def finished(folder, num_iter):
    """Writes experiments of the seeds from 1 on; 0 iterations are those of an unfinished one."""
    files = folder / "cart_params.py", folder / "cart_config.json"
    for seed, number in enumerate(num_iter, 1):
        root = folder / f"logs/cart_seed_{seed}"
        paths = write_finished_run(root, *files, num_iter=number)
        if not number:
            paths.finished.unlink()


@pytest.mark.parametrize(
    ("num_iter", "trained"), [((7, 7), [(1, 9), (2, 9)]), ((9, 7), [(2, 9)]), ((7, 0), None)]
)
def test_extending_several_seeds_makes_them_equally_long(tmp_path, monkeypatch, num_iter, trained):
    assert sac(tmp_path, "new", "cart")[0] == 0
    monkeypatch.chdir(tmp_path)
    finished(tmp_path, num_iter)
    runs = []

    def note(environ):
        (binding,) = environ["SAC_GIN_BINDINGS"].splitlines()
        runs.append((int(environ["SAC_SEED"]), int(binding.rpartition("=")[2])))
        return 0

    monkeypatch.setattr(train, "run_apart", note)
    environ = read_variables(tmp_path / "cart_variables.sh", {})
    if trained is None:
        with pytest.raises(ConfigError, match="and logs/cart_seed_2 is not finished"):
            train._train_seeds(environ, (1, 2), 2, False)
    else:
        assert train._train_seeds(environ, (1, 2), 2, False) == 0
    assert runs == (trained or [])


def test_a_file_of_a_project_that_is_not_its_variables_is_told_apart(tmp_path):
    assert sac(tmp_path, "new", "cart")[0] == 0
    code, _, err = sac(tmp_path, "train", "cart_params.py")
    assert (
        code == 78 and "not a variables file, a shell" in err and "are: cart_variables.sh." in err
    )
    write_finished_run(tmp_path / "logs/arm", tmp_path / "cart_params.py",
                       tmp_path / "cart_config.json")  # fmt: skip
    code, _, err = sac(tmp_path, "train", "logs/arm")
    assert code == 78 and "logs/arm is an experiment, not a variables file. The command" in err


def test_a_name_that_another_experiment_has_is_refused_before_files_are_written(tmp_path):
    assert sac(tmp_path, "new", "cart", "--from", "gym:Pendulum-v1")[0] == 0
    write_finished_run(tmp_path / "logs/arm", tmp_path / "cart_params.py",
                       tmp_path / "cart_config.json")  # fmt: skip
    before = sorted(tmp_path.rglob("*"))
    code, out, err = sac(tmp_path, "train", "--env=gym:Pendulum-v1", "--name=arm")
    assert (code, out) == (78, "") and "logs/arm already exists, and was not trained" in err
    assert sorted(tmp_path.rglob("*")) == before


def test_an_experiment_that_waits_in_slurm_s_queue_is_not_renamed(tmp_path, monkeypatch):
    paths = ExperimentPaths(tmp_path / "logs/cart")
    paths.slurm.mkdir(parents=True)
    (paths.slurm / "jobs").write_text("101 core\n102 workers\n")
    (tmp_path / "squeue").write_text("#!/bin/sh\necho PENDING\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(ConfigError, match="submitted to SLURM. Cancel it first: scancel 101 102"):
        train._move_away(paths, None)
    (tmp_path / "squeue").write_text("#!/bin/sh\n")
    train._move_away(paths, None)
    assert not paths.root.exists()


@pytest.mark.parametrize("seeds", [("1",), ("1", "2")])
def test_the_earlier_run_gets_its_name_back_if_the_new_one_cannot_start(tmp_path, seeds):
    assert sac(tmp_path, "new", "cart")[0] == 0
    config = tmp_path / "cart_config.json"
    name = "cart_seed_1" if len(seeds) > 1 else "cart"
    write_finished_run(tmp_path / "logs" / name, tmp_path / "cart_params.py", config)
    config.write_text('{"horizon": "100"}')
    code, out, err = sac(
        tmp_path, "train", "cart_variables.sh", "--force_new", "--seed", *seeds,
        SAC_PLACEMENT="local",
    )  # fmt: skip
    assert code == 78 and 'cart_config.json: horizon is "100"' in err
    first, last = [line for line in out.splitlines() if "_until_" in line]
    kept = first.removeprefix(f"The earlier logs/{name} is now ").removesuffix(".")
    assert last == f"Nothing was started, so {kept} is logs/{name} again."
    assert [path.name for path in (tmp_path / "logs").iterdir()] == [name]
    assert ExperimentPaths(tmp_path / "logs" / name).finished.exists()


def test_an_experiment_that_has_begun_keeps_its_name_if_it_fails_later(tmp_path):
    paths = ExperimentPaths(tmp_path / "logs/cart")
    paths.episodes.mkdir(parents=True)

    def fail_later():
        paths.checkpoints.mkdir(parents=True)
        return 1

    assert train._anew(paths, {}, fail_later) == 1
    assert [path.name for path in paths.root.iterdir()] == ["checkpoints"]
    (kept,) = paths.root.parent.glob("cart_until_*")
    assert (kept / "episodes").is_dir()


def test_files_of_a_project_that_were_deleted_are_written_again(tmp_path):
    assert sac(tmp_path, "new", "arm", "--from", "gym:Pendulum-v1")[0] == 0
    files = tmp_path / "arm_params.py", tmp_path / "arm_config.json"
    write_finished_run(tmp_path / "logs/arm", *files)
    for path in (*files, tmp_path / "arm_variables.sh"):
        path.unlink()
    code, _, err = sac(tmp_path, "train", "--env=gym:Pendulum-v1", "--name=arm")
    assert code == 78 and "logs/arm is finished: it has trained its 1 iterations" in err
    assert all(path.exists() for path in files)


def test_actions_without_a_head_are_refused_before_files_are_written():

    class TwoArms(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (2,))
        action_space = gymnasium.spaces.Tuple([gymnasium.spaces.Text(2)] * 2)

    gymnasium.register("TwoArms-v0", entry_point=TwoArms)
    try:
        with pytest.raises(
            ConfigError, match=r"The actions of TwoArms-v0 are Tuple\(.*\)\. Expected"
        ):
            try_environment(EnvironmentId("gymnasium", "TwoArms-v0", 200))
    finally:
        del gymnasium.registry["TwoArms-v0"]
