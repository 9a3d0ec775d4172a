import dataclasses
import json
import os
import subprocess
import sys
import traceback

import gin
import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.guest import UserCodeError
from tfagents_system.core.process.user_modules import MODULES_VARIABLE, UserModule, loaded_modules
from tfagents_system.core.programs.params_loader import gin_text, load_params, load_run
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.running import begin_run, copied_modules, edited_files
from tfagents_system.launch.checks.imported_modules import imported_modules

ENV_CONFIG = {"horizon": 100}
HEADER = "from tfagents_system.train_params_base import TrainParamsBase\n\n"
CLASS = HEADER + "class TrainParams(TrainParamsBase):\n"
MINIMAL = CLASS + "    def env_ctor(self, *args, seed=None, **kwargs):\n        return None\n"


@pytest.fixture(autouse=True)
def isolated(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "train_params", raising=False)
    yield
    gin.clear_config()


def write(folder, text, name="my_params.py"):
    path = folder / name
    path.write_text(text)
    return path


def test_params_get_the_config_and_the_defaults(tmp_path):
    params = load_params(write(tmp_path, MINIMAL), ENV_CONFIG)
    assert type(params).__name__ == "TrainParams"
    assert params.env_config == ENV_CONFIG
    assert (params.num_iter, params.discount) == (1000, 0.99)


def test_class_attributes_then_init_then_gin_override(tmp_path):
    text = (
        MINIMAL
        + """
    num_iter = 10
    discount = 0.9
    train_batch_size = 8

    def __init__(self, env_config):
        super().__init__(env_config)
        self.discount = 0.8
        self.train_batch_size = 16
"""
    )
    bindings = ["TrainParams.train_batch_size = 32"]
    params = load_params(write(tmp_path, text), ENV_CONFIG, bindings)
    assert (params.num_iter, params.discount, params.train_batch_size) == (10, 0.8, 32)


def test_params_may_import_their_neighbours(tmp_path):
    write(tmp_path, "ITERATIONS = 77\n", "my_constants.py")
    text = MINIMAL + "    from my_constants import ITERATIONS as num_iter\n"
    assert load_params(write(tmp_path, text), ENV_CONFIG).num_iter == 77


def test_copy_of_the_params_may_import_from_the_original_folder(tmp_path):
    original, copy = tmp_path / "original", tmp_path / "run"
    original.mkdir()
    copy.mkdir()
    write(original, "ITERATIONS = 78\n", "my_other_constants.py")
    text = MINIMAL + "    from my_other_constants import ITERATIONS as num_iter\n"
    facts = {"params_dir": str(original), "params_name": "mine.py"}
    (copy / "provenance.json").write_text(json.dumps(facts))
    params = load_params(write(copy, text, "params.py"), ENV_CONFIG)
    assert params.num_iter == 78
    module = sys.modules[type(params).__module__]
    assert (module.__name__, module.__file__) == ("mine", str(original / "mine.py"))


def test_a_copy_whose_original_is_gone_runs_as_itself_and_says_so(tmp_path, capsys):
    facts = {"params_dir": str(tmp_path / "gone"), "params_name": "mine.py"}
    (tmp_path / "provenance.json").write_text(json.dumps(facts))
    copy = write(tmp_path, MINIMAL, "params.py")
    module = sys.modules[type(load_params(copy, ENV_CONFIG)).__module__]
    assert (module.__name__, module.__file__) == ("params", str(copy))
    assert capsys.readouterr().out == (
        f"Note: the folder of {tmp_path}/gone/mine.py is gone; {copy} runs as if it were the "
        "original.\n"
    )


@pytest.mark.parametrize("name", ["gin.py", "random.py", "my.params.py", "tfagents_system.py"])
def test_a_params_file_takes_no_other_modules_name(tmp_path, name):
    before = sys.modules.get(name.removesuffix(".py"))
    params = load_params(write(tmp_path, MINIMAL, name), ENV_CONFIG)
    assert type(params).__module__ == "train_params"
    assert sys.modules.get(name.removesuffix(".py")) is before


def test_tracebacks_show_the_lines_that_are_executed(tmp_path):
    (tmp_path / "lab").mkdir()
    original = write(tmp_path / "lab", "an edit = of later\n" * 9, "mine.py")
    facts = {"params_dir": str(original.parent), "params_name": "mine.py"}
    (tmp_path / "provenance.json").write_text(json.dumps(facts))
    copy = write(tmp_path, f"{MINIMAL}\nraise ValueError('no motor')\n", "params.py")
    with pytest.raises(UserCodeError, match="no motor") as raised:
        load_params(copy, ENV_CONFIG)
    shown = "".join(traceback.format_exception(raised.value))
    assert f'"{original}", line ' in shown and "raise ValueError('no motor')" in shown
    assert "an edit" not in shown


def test_neighbours_are_executed_as_they_were_at_the_start_of_the_run(tmp_path):
    """In packages, too, with the files of the originals; and so do processes of user code."""
    lab, paths = tmp_path / "lab", ExperimentPaths(tmp_path / "run")
    (lab / "my_arm").mkdir(parents=True)
    paths.root.mkdir()
    write(lab / "my_arm", "from . import my_motor\n", "__init__.py")
    motor = write(lab / "my_arm", "SPEED = 5\nFILE = __file__\n", "my_motor.py")
    write(lab, "import my_arm\n", "my_robot.py")
    text = "import my_robot\n" + MINIMAL + "    num_iter = my_robot.my_arm.my_motor.SPEED\n"
    paths.params.write_text(text)
    paths.config.write_text(json.dumps(ENV_CONFIG))
    facts = {"seed": 1, "gin_bindings": [], "params_dir": str(lab), "params_name": "mine.py"}
    paths.provenance.write_text(json.dumps(facts))
    begin_run(paths, imported_modules(paths.params, lab))
    assert [module.name for module in copied_modules(paths)] == [
        "my_arm", "my_arm.my_motor", "my_robot",
    ]  # fmt: skip
    motor.write_text("SPEED = 6\n")
    assert edited_files(paths) == ["my_arm/my_motor.py"]
    try:
        assert load_run(str(paths.root)).params.num_iter == 5
        loaded = {m.name: m for m in loaded_modules() if m.name.startswith("my_")}
        assert loaded["my_arm.my_motor"].file == str(motor) == sys.modules["my_arm.my_motor"].FILE
        assert loaded["my_arm.my_motor"].source != str(motor)
        assert in_child(lab / "mine.py", paths) == f"5 {motor} {lab / 'mine.py'}\n"
    finally:
        for name in ("my_arm", "my_arm.my_motor", "my_robot"):
            sys.modules.pop(name, None)


def in_child(original, paths):
    """A process that user code starts finds the modules of the user."""
    params = UserModule("mine", str(original), str(paths.running_params))
    told = {"params": dataclasses.asdict(params), "running": str(paths.running)}
    code = """
from tfagents_system.core.programs import user_child
user_child.main()
import mine
motor = mine.my_robot.my_arm.my_motor
print(motor.SPEED, motor.FILE, mine.__file__)
"""
    environ = os.environ | {MODULES_VARIABLE: json.dumps(told), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_second_load_in_one_process_does_not_see_the_bindings_of_the_first(tmp_path):
    path = write(tmp_path, MINIMAL)
    first = load_params(path, ENV_CONFIG, ["TrainParams.num_iter = 3"])
    second = load_params(path, ENV_CONFIG, ["TrainParams.discount = 0.5"])
    assert (first.num_iter, first.discount) == (3, 0.99)
    assert (second.num_iter, second.discount) == (1000, 0.5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("X = 1\n", "defines no class TrainParams."),
        (f"X = {'-' * 99_999}1\n", "nested too deeply for Python."),
        (CLASS + "    pass\n", "TrainParams does not define env_ctor."),
        ("class TrainParams:\n    pass\n", "TrainParams is not derived from TrainParamsBase."),
        (
            "class TrainParams:\n    def check(self, where): ...\n",
            "TrainParams is not derived from TrainParamsBase.",
        ),
        ("TrainParams = 3\n", "TrainParams is not derived from TrainParamsBase."),
        (MINIMAL + "    num_iters = 3\n", "TrainParams.num_iters is not a training parameter."),
        (MINIMAL + "    num_iter = 0\n", "num_iter is 0; expected an integer >= 1 and"),
        (MINIMAL + "    recurrent = True\n    recurrent_sequence_length = 101\n",
         "recurrent_sequence_length (101) exceeds the horizon (100)"),
        (MINIMAL + "    callbacks = []\n",
         "TrainParams.callbacks is []; expected a method, def callbacks(self, ...)."),
        (MINIMAL + "    def callbacks(self, prog):\n        return []\n",
         "TrainParams.callbacks requires the argument 'prog'; it can have "),
        (MINIMAL + "    def eval_env_args_kwargs(self, worker):\n        return (), {}\n",
         "TrainParams.eval_env_args_kwargs requires the argument 'worker'; it can have "),
        (MINIMAL + "    def sample_parameter(self, name):\n        return 1\n",
         "TrainParams.sample_parameter is sample_parameter(name): too many positional arguments; "
         "write def sample_parameter(self, name, settings, generator)."),
        (MINIMAL + "    def critic_ctor(self, obs_spec, action_spec, size):\n        return 1\n",
         "TrainParams.critic_ctor is critic_ctor(obs_spec, action_spec, size): missing a required "
         "argument: 'size'; write def critic_ctor(self, obs_spec, action_spec)."),
        (CLASS + "    def env_ctor(self, *args):\n        return None\n",
         "TrainParams.env_ctor is env_ctor(*args) and gets the argument seed; write "
         "def env_ctor(self, *args, seed=None, **kwargs)."),
    ],
)  # fmt: skip
def test_wrong_params_file_names_it_and_the_mistake(tmp_path, text, expected):
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as error:
        load_params(path, ENV_CONFIG)
    assert str(error.value).startswith(f"{path}: {expected}")


def test_an_agent_of_the_users_own_calls_its_networks_as_it_likes(tmp_path):
    agent = "    def agent_ctor(self, *args):\n        return self.critic_ctor(1, 2, size=3)\n"
    critic = "    def critic_ctor(self, obs_spec, action_spec, size):\n        return None\n"
    params = load_params(write(tmp_path, MINIMAL + agent + critic), ENV_CONFIG)
    assert params.agent_ctor() is None


def test_settings_of_bindings_that_do_not_fit_together_name_both_origins(tmp_path):
    path = write(tmp_path, MINIMAL)
    binding = "TrainParams.n_buffer_init_episodes = 351"
    with pytest.raises(ConfigError) as error:
        load_params(path, ENV_CONFIG, [binding])
    assert str(error.value).startswith(
        f"{path}, with its gin bindings: n_buffer_init_episodes (351) exceeds n_episodes_in_buffer"
    )


@pytest.mark.parametrize("name", ["absent.py", "params.txt", "."])
def test_path_that_is_no_python_file_raises(tmp_path, name):
    write(tmp_path, MINIMAL, "params.txt")
    with pytest.raises(ConfigError, match="no such params file"):
        load_params(tmp_path / name, ENV_CONFIG)


@pytest.mark.parametrize(
    ("binding", "expected"),
    [
        ("TrainParams.num_itr = 3", "gin bindings: num_itr is not .* Did you mean num_iter?"),
        ("TrainParams.num_iter = -3", "gin bindings: num_iter is -3; expected an integer >= 1"),
        ("TrainParms.num_iter = 3", "gin binding 'TrainParms.num_iter = 3': No configurable"),
        ("TrainParams.num_iter = three", "gin binding 'TrainParams.num_iter = three': "),
        ("TrainParams.num_iter", "gin binding 'TrainParams.num_iter': "),
        ("TrainParams.num_iter = %n", "gin bindings ..TrainParams.num_iter = %n..: macro"),
        ("NoSuchThing.x = 3", "gin binding 'NoSuchThing.x = 3': No configurable"),
        ("import no_such_module", "gin binding 'import no_such_module': "),
        ("include 'no_such_file'", "gin binding \"include 'no_such_file'\": "),
        ("A.b = [", "gin binding 'A.b = \\[': "),
        ("A.b = {[]: 1}", "gin binding 'A.b = {\\[\\]: 1}': "),
    ],
)
def test_wrong_gin_binding_is_named(tmp_path, binding, expected):
    with pytest.raises(ConfigError, match=f"^{expected}"):
        load_params(write(tmp_path, MINIMAL), ENV_CONFIG, [binding])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("X = 1\n\nif = 3\n", "my_params.py:3: not valid Python: invalid syntax$"),
        ("X = 1\n\nreturn\n", "my_params.py:3: not valid Python: 'return' outside function$"),
        ("X = 1\0\n", "my_params.py(:1)?: not valid Python: source code .* null bytes$"),
    ],
)
def test_syntax_error_names_file_and_line(tmp_path, text, expected):
    with pytest.raises(ConfigError, match=expected):
        load_params(write(tmp_path, text), ENV_CONFIG)


def test_error_of_the_users_own_code_keeps_its_traceback(tmp_path):
    path = write(tmp_path, "X = 1\n\nraise ValueError('no motor')\n")
    with pytest.raises(UserCodeError) as raised:
        load_params(path, ENV_CONFIG)
    assert str(raised.value) == f"importing {path} raised ValueError: no motor ({path}:3)"
    last = traceback.extract_tb(raised.value.__cause__.__traceback__)[-1]
    assert (last.filename, last.lineno) == (str(path), 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import numpy.linalgg as la", "No module named 'numpy.linalgg'. Did you mean linalg?"),
        ("import xml.etree.ElementTrees",
         "No module named 'xml.etree.ElementTrees'. Did you mean ElementTree?"),
        ("from numpy.missing import x", "No module named 'numpy.missing'."),
        ("from tfagents_system.train_params_bas import T",
         "No module named 'tfagents_system.train_params_bas'. Did you mean train_params_base?"),
        ("import tfagents_system.enviroments.gym_adapter",
         "No module named 'tfagents_system.enviroments'. Did you mean environments?"),
        ("from tfagents_system.utils.metric import SuccessMetric",  # of another framework
         "No module named 'tfagents_system.utils'. A params file of another framework of this name?"
         " Remove the import and what uses it: docs/environments.md lists"),
        ("from tfagents_system.environments import gymadapter",
         "cannot import name 'gymadapter' from 'tfagents_system.environments' ("),
        ("from tfagents_system.environments import gymadapter", "). Did you mean gym_adapter?"),
        ("from my_tasks import reach, reech", "). Did you mean reach?"),
        ("from my_tasks.reach import Reech", "cannot import name 'Reech' from 'my_tasks.reach' ("),
        ("from my_tasks.reach import Reech", "). Did you mean Reach?"),
        ("import my_tasks.reech", "No module named 'my_tasks.reech'. Did you mean reach?"),
        ("import my_tasks.reach.far",
         "No module named 'my_tasks.reach.far'; 'my_tasks.reach' is not a package."),
    ],
)  # fmt: skip
def test_an_import_of_what_there_is_not_is_one_sentence_with_the_nearest(tmp_path, text, expected):
    (tmp_path / "my_tasks").mkdir()
    write(tmp_path / "my_tasks", "", "__init__.py")
    write(tmp_path / "my_tasks", "class Reach: pass\n", "reach.py")
    path = write(tmp_path, f"X = 1\n\n{text}\n")
    with pytest.raises(ConfigError) as raised:
        load_params(path, ENV_CONFIG)
    (line,) = str(raised.value).splitlines()
    assert line.startswith(f"{path}:3: ") and expected in line


def test_a_failing_import_of_another_module_keeps_its_traceback(tmp_path):
    neighbour = write(tmp_path, "import numpy.linalgg\n", "my_neighbour.py")
    with pytest.raises(UserCodeError, match=f"No module named 'numpy.linalgg' .{neighbour}:1.$"):
        load_params(write(tmp_path, "import my_neighbour\n"), ENV_CONFIG)


def test_last_of_two_bindings_of_a_name_holds(tmp_path):
    bindings = ["TrainParams.num_iter = 3", "TrainParams.num_iter = 4"]
    assert load_params(write(tmp_path, MINIMAL), ENV_CONFIG, bindings).num_iter == 4


def test_gin_text_read_back_gives_the_same_hyperparameters(tmp_path):
    path = write(tmp_path, MINIMAL + "    actor_fc_layer_params = (8, 4)\n")
    params = load_params(path, ENV_CONFIG, ["TrainParams.gradient_clipping = 2.5"])
    lines = [line for line in gin_text(params).splitlines() if line.startswith("TrainParams.")]
    assert "TrainParams.gradient_clipping = 2.5" in lines
    assert "TrainParams.actor_fc_layer_params = (8, 4)" in lines
    plain = load_params(write(tmp_path, MINIMAL), ENV_CONFIG, lines)
    assert plain.hyperparameters() == params.hyperparameters()


def write_run(folder, env_config, **provenance):
    (folder / "config.json").write_text(json.dumps(env_config))
    write(folder, MINIMAL, "params.py")
    facts = {"seed": 42, "gin_bindings": [], "params_dir": str(folder)} | provenance
    (folder / "provenance.json").write_text(json.dumps(facts))
    begin_run(ExperimentPaths(folder), gin_bindings=facts["gin_bindings"])


def test_run_is_what_its_folder_says(tmp_path):
    curriculum = {"mass": {"iters": [0, 10], "range": [1, 2]}}
    bindings = ["TrainParams.num_iter = 30", "TrainParams.num_steps_per_iter = 7"]
    write_run(tmp_path, ENV_CONFIG | {"curriculum": curriculum}, gin_bindings=bindings)
    run = load_run(str(tmp_path))
    assert (run.seed, run.horizon, run.num_train_steps) == (42, 100, 30 * 7)
    assert run.curriculum.state_at(10) == {"mass": 2}
    assert run.paths.root == tmp_path


def test_a_custom_sampler_of_the_curriculum_is_a_method_of_the_params(tmp_path):
    curriculum = {"mass": {"sampler": "custom", "heaviest": 3}}
    write_run(tmp_path, ENV_CONFIG | {"curriculum": curriculum})
    hook = "def sample_parameter(self, name, settings, generator):\n        "
    hook += "return generator.integers(1, settings['heaviest'] + 1)"
    write(tmp_path / "running", f"{MINIMAL}\n    {hook}\n", "params.py")
    curriculum = load_run(str(tmp_path)).curriculum
    assert {curriculum.state_at(0, seed=seed)["mass"] for seed in range(30)} == {1, 2, 3}


def test_a_custom_sampler_of_a_later_lesson_is_refused_at_the_start(tmp_path):
    until = {"measure": "reward", "threshold": 1}
    lessons = [{"value": 1, "until": until}, {"value": {"sampler": "custom"}}]
    write_run(tmp_path, ENV_CONFIG | {"curriculum": {"mass": {"lessons": lessons}}})
    with pytest.raises(ConfigError, match="parameter mass has a custom sampler: define sample_par"):
        load_run(str(tmp_path))


def test_iterations_of_the_curriculum_that_training_never_has_are_noted(tmp_path, capsys):
    curriculum = {"mass": {"iters": [0, 5_000], "range": [1, 2]}}
    write_run(tmp_path, ENV_CONFIG | {"curriculum": curriculum})
    load_run(str(tmp_path))
    assert capsys.readouterr().out == (
        f"Note: {tmp_path / 'config.json'}: curriculum.mass changes at iteration 5000, which "
        "training does not reach: num_iter is 1000.\n"
    )


def test_attributes_of_an_imported_base_class_are_noted_in_the_log(tmp_path, capsys):
    base = MINIMAL.replace("TrainParams(", "Base(")
    write(tmp_path, f"{base}    def replay_ctor(self): pass\n", "my_base.py")
    write_run(tmp_path, ENV_CONFIG)
    text = "from my_base import Base\nclass TrainParams(Base): pass\n"
    ExperimentPaths(tmp_path).running_params.write_text(text)
    load_run(str(tmp_path))
    note = f"Note: {tmp_path}/params.py: TrainParams.replay_ctor is not a hook of this system"
    assert [line.startswith(note) for line in capsys.readouterr().out.splitlines()] == [True]


def test_an_edit_applies_to_no_program_of_a_run_until_its_next_start(tmp_path):
    paths = ExperimentPaths(tmp_path)
    write_run(tmp_path, ENV_CONFIG)
    write(tmp_path, MINIMAL + "    train_batch_size = 8\n", "params.py")
    paths.config.write_text(json.dumps({"horizon": 50}))

    run = load_run(str(tmp_path))  # as of a worker that was killed
    assert (run.params.train_batch_size, run.horizon) == (256, 100)
    assert edited_files(paths) == ["config.json", "params.py"]

    begin_run(paths)
    run = load_run(str(tmp_path))
    assert (run.params.train_batch_size, run.horizon) == (8, 50)
    assert edited_files(paths) == []


def test_folder_that_was_never_started_raises(tmp_path):
    with pytest.raises(ConfigError, match="provenance.json does not exist; start the run with"):
        load_run(str(tmp_path))


def test_the_horizon_stays_ours_whatever_params_do_with_their_config(tmp_path):
    body = "    def __init__(self, env_config):\n        super().__init__(env_config)\n"
    body += "        env_config.pop('horizon')\n"
    config = {"horizon": 100}
    params = load_params(write(tmp_path, MINIMAL + body), config)
    assert (params.env_config["horizon"], config) == (100, {"horizon": 100})
