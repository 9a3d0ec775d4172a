import pathlib

import hypothesis
import pytest
from hypothesis import strategies as st

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.variables import VARIABLES, Settings, split_bindings

REQUIRED = {"SAC_EXP_NAME": "walk", "SAC_PARAMS": "my_params.py", "SAC_CONFIG": "my.json"}
INTEGERS = {
    "SAC_NUM_COLLECT_WORKERS": ("num_collect_workers", 1, 4096),
    "SAC_COLLECT_WORKER_CPUS": ("collect_worker_cpus", 1, 4096),
    "SAC_TRAIN_CPUS": ("train_cpus", 1, 4096),
    "SAC_REVERB_CPUS": ("reverb_cpus", 1, 4096),
    "SAC_REVERB_PORT": ("reverb_port", 1, 65535),
    "SAC_ENV_TIMEOUT_SECS": ("env_timeout_secs", 1, 10**7),
    "SAC_SEED": ("seed", 0, 2**32 - 1),
    "SLURM_ARRAY_TASK_ID": ("task_id", 0, 2**32 - 1),
}


def test_required_variables_alone_leave_the_rest_automatic():
    assert Settings.from_environ(REQUIRED) == Settings(
        exp_name="walk",
        params=pathlib.Path("my_params.py"),
        config=pathlib.Path("my.json"),
        num_collect_workers=None,
        collect_worker_cpus=None,
        train_cpus=None,
        reverb_cpus=None,
        reverb_port=None,
        private_network=None,
        env_timeout_secs=None,
        seed=None,
        deterministic=False,
        placement="local",
        ray_address=None,
        workers_per_share=1,
        eval_workers=0,
        initialize_from=None,
        wandb=False,
        mlflow=False,
        mlagents_tags=False,
        gin_bindings=(),
        task_id=None,
    )


def test_other_variables_of_the_environment_are_ignored():
    others = {"PATH": "/bin", "SACRED": "1", "SLURM_JOB_ID": "7", "sac_seed": "x"}
    assert Settings.from_environ(REQUIRED | others) == Settings.from_environ(REQUIRED)


@pytest.mark.parametrize("missing", REQUIRED)
@pytest.mark.parametrize("value", [None, "", "  "])
def test_missing_required_variable_is_named_with_its_meaning(missing, value):
    environ = {name: text for name, text in REQUIRED.items() if name != missing}
    if value is not None:
        environ[missing] = value
    with pytest.raises(ConfigError) as error:
        Settings.from_environ(environ)
    assert str(error.value) == f"{missing} is not set. It is the {VARIABLES[missing]}."


@pytest.mark.parametrize(
    ("name", "meant"),
    [("SAC_NUM_WORKERS", "Did you mean SAC_NUM_COLLECT_WORKERS?"),
     ("SAC_seed", "Did you mean SAC_SEED?"), ("SAC_GAMMA", "Allowed: SAC_EXP_NAME, ")],
)  # fmt: skip
def test_an_unknown_variable_may_be_a_hyperparameter(name, meant):
    with pytest.raises(ConfigError) as error:
        Settings.from_environ(REQUIRED | {name: "2"})
    message = str(error.value)
    assert message.startswith(f"{name} is not a variable of this system. {meant}")
    assert message.endswith(
        " Hyperparameters are not variables: set them in the params file, by --set of sac train, "
        "or in SAC_GIN_BINDINGS."
    )


def test_unknown_variable_names_the_nearest():
    with pytest.raises(ConfigError, match="^SAC_TRAIN_CPU is not .* Did you mean SAC_TRAIN_CPUS?"):
        Settings.from_environ(REQUIRED | {"SAC_TRAIN_CPU": "2"})


def integer_of(variable, text):
    """Returns what a variable of INTEGERS is read as, or the message of its refusal."""
    try:
        settings = Settings.from_environ(REQUIRED | {variable: text})
    except ConfigError as error:
        return str(error)
    return getattr(settings, INTEGERS[variable][0])


@pytest.mark.parametrize("end", [0, 1], ids=["low", "high"])
def test_integers_are_read_at_both_ends_of_their_ranges(end):
    ends = {variable: bounds[end] for variable, (_, *bounds) in INTEGERS.items()}
    assert {name: integer_of(name, f" {number} ") for name, number in ends.items()} == ends


@pytest.mark.parametrize("text", ["auto", "", " auto "])
def test_auto_and_empty_are_none(text):
    assert {name: integer_of(name, text) for name in INTEGERS} == dict.fromkeys(INTEGERS)


@pytest.mark.parametrize("text", ["-1", "two", "1.5", "1e3", "99999999999", "0x10", "1_0", "²"])
def test_malformed_integer_names_variable_value_and_range(text):
    assert {name: integer_of(name, text) for name in INTEGERS} == {
        name: f"{name} is {text!r}; expected auto or an integer from {low} to {high}."
        for name, (_, low, high) in INTEGERS.items()
    }


@pytest.mark.parametrize(
    ("text", "expected"), [("auto", None), ("", None), (" 1 ", True), ("0", False)]
)
def test_private_network_is_read(text, expected):
    settings = Settings.from_environ(REQUIRED | {"SAC_PRIVATE_NETWORK": text})
    assert settings.private_network is expected


@pytest.mark.parametrize("text", ["2", "yes", "01", "AUTO"])
def test_other_private_networks_are_refused(text):
    with pytest.raises(ConfigError) as error:
        Settings.from_environ(REQUIRED | {"SAC_PRIVATE_NETWORK": text})
    assert str(error.value) == f"SAC_PRIVATE_NETWORK is {text!r}; expected auto, 0 or 1."


def test_a_deterministic_run_has_one_worker():
    settings = Settings.from_environ(REQUIRED | {"SAC_DETERMINISTIC": "1"})
    assert settings.deterministic and settings.num_collect_workers == 1
    with pytest.raises(ConfigError) as error:
        Settings.from_environ(REQUIRED | {"SAC_DETERMINISTIC": "1", "SAC_NUM_COLLECT_WORKERS": "2"})
    assert str(error.value) == (
        "SAC_NUM_COLLECT_WORKERS is 2 and SAC_DETERMINISTIC is 1; expected auto or 1, "
        "because the order in which the steps of several workers arrive differs from run to run."
    )


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [("SAC_EVAL_WORKERS", "1", "auto or 0"), ("SAC_PLACEMENT", "slurm", "auto or local")],
)
def test_a_deterministic_run_has_neither_evaluators_nor_other_hosts(variable, value, allowed):
    with pytest.raises(ConfigError) as error:
        Settings.from_environ(REQUIRED | {"SAC_DETERMINISTIC": "1", variable: value})
    beginning = f"{variable} is {value} and SAC_DETERMINISTIC is 1; expected {allowed}, "
    assert str(error.value).startswith(beginning)


@pytest.mark.parametrize(
    ("text", "expected"), [("auto", "local"), ("", "local"), (" slurm ", "slurm"), ("ray", "ray")]
)
def test_placement_is_read(text, expected):
    assert Settings.from_environ(REQUIRED | {"SAC_PLACEMENT": text}).placement == expected


@pytest.mark.parametrize(
    ("text", "hint"),
    [("slrum", "Did you mean slurm?"), ("SLURM", "Allowed: auto, local, ray, slurm."),
     ("locl", "Did you mean local?")],
)  # fmt: skip
def test_other_placements_are_refused(text, hint):
    with pytest.raises(ConfigError) as error:
        Settings.from_environ(REQUIRED | {"SAC_PLACEMENT": text})
    assert str(error.value) == f"SAC_PLACEMENT is {text!r}, which is not allowed. {hint}"


@pytest.mark.parametrize("address", ["10.0.0.1:6379", "ray://head.cluster:10001"])
def test_ray_address_is_read(address):
    settings = Settings.from_environ(REQUIRED | {"SAC_RAY_ADDRESS": address})
    assert settings.ray_address == address


@pytest.mark.parametrize("address", ["head", "http://head:80", "head:", "a b:1", "ray://"])
def test_other_ray_addresses_are_refused(address):
    with pytest.raises(ConfigError) as error:
        Settings.from_environ(REQUIRED | {"SAC_RAY_ADDRESS": address})
    assert str(error.value) == (
        f"SAC_RAY_ADDRESS is {address!r}; expected auto, host:port or ray://host:port."
    )


def test_shares_have_one_worker_and_no_evaluator_unless_asked_for():
    settings = Settings.from_environ(
        REQUIRED | {"SAC_WORKERS_PER_SHARE": "4", "SAC_EVAL_WORKERS": "2"}
    )
    assert (settings.workers_per_share, settings.eval_workers) == (4, 2)


@pytest.mark.parametrize("text", ["0", "4097"])
def test_number_of_workers_out_of_range_raises(text):
    with pytest.raises(ConfigError, match="an integer from 1 to 4096"):
        Settings.from_environ(REQUIRED | {"SAC_NUM_COLLECT_WORKERS": text})


@pytest.mark.parametrize("name", ["walk", "Walk-2.1_b", "7"])
def test_experiment_name_is_the_folder_in_logs(name):
    settings = Settings.from_environ(REQUIRED | {"SAC_EXP_NAME": name})
    assert settings.exp_dir == pathlib.Path("logs") / name


@pytest.mark.parametrize(
    "name", ["../walk", "a/b", ".hidden", "-x", "two words", "..", "a\nb", "x" * 201]
)
def test_experiment_name_that_is_no_folder_name_raises(name):
    with pytest.raises(ConfigError, match=r"^SAC_EXP_NAME is .*; expected letters, digits"):
        Settings.from_environ(REQUIRED | {"SAC_EXP_NAME": name})


def test_task_of_a_job_array_has_its_own_folder():
    settings = Settings.from_environ(REQUIRED | {"SLURM_ARRAY_TASK_ID": "0"})
    assert settings.exp_dir == pathlib.Path("logs/walk_task_0")


def test_gin_bindings_are_split_at_semicolons_and_newlines():
    text = " TrainParams.num_iter = 3;\nTrainParams.discount=0.9 ;; \n TrainParams.recurrent = True"
    settings = Settings.from_environ(REQUIRED | {"SAC_GIN_BINDINGS": text})
    assert settings.gin_bindings == (
        "TrainParams.num_iter = 3",
        "TrainParams.discount=0.9",
        "TrainParams.recurrent = True",
    )
    assert Settings.from_environ(REQUIRED | {"SAC_GIN_BINDINGS": " ;\n"}).gin_bindings == ()


def test_bindings_are_split_at_semicolons_and_newlines_outside_of_strings():
    text = """A.b = 'x;y'; C.d = "it's; so"\n\n;E.f = '\\';'; G.h = 'open; I.j = 3"""
    assert split_bindings(text) == (
        "A.b = 'x;y'", """C.d = "it's; so\"""", "E.f = '\\';'", "G.h = 'open", "I.j = 3",
    )  # fmt: skip


@pytest.mark.fault_row("malformed input")
@hypothesis.given(
    st.dictionaries(
        st.sampled_from([*VARIABLES, "SLURM_ARRAY_TASK_ID", "SAC_", "SAC_SEEED", "OTHER"]),
        st.text() | st.integers().map(str) | st.sampled_from(["auto", "\udcff", "9" * 5000]),
    )
)
@hypothesis.settings(max_examples=150)
def test_any_values_give_settings_or_an_error_that_names_the_variable(environ):
    try:
        settings = Settings.from_environ(REQUIRED | environ)
    except ConfigError as error:
        assert str(error).split()[0] in environ
    else:
        assert len(settings.exp_dir.name) <= 255
        assert settings.exp_dir.parent == pathlib.Path("logs")
