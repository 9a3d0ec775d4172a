import dataclasses
import re

import numpy as np
import pytest

from tfagents_system.agents.agent_settings import AgentSettings, check_agent_settings
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.attribute_names import HOOKS
from tfagents_system.core.settings.hyperparameters import (
    check_hyperparameter,
    count,
    hyperparameters,
)
from tfagents_system.core.settings.names_elsewhere import NAMES_ELSEWHERE
from tfagents_system.core.settings.training_settings import (
    TrainingSettings,
    check_training_settings,
)
from tfagents_system.core.settings.variables import VARIABLES

DECLARED = hyperparameters(TrainingSettings, AgentSettings)

PUBLISHED = {
    "discount": 0.99,
    "critic_learning_rate": 3e-4,
    "actor_learning_rate": 3e-4,
    "alpha_learning_rate": 3e-4,
    "target_update_tau": 0.005,
    "target_update_period": 1,
    "gradient_clipping": None,
    "sac_log_alpha": 1.0,
    "actor_fc_layer_params": (256, 256),
    "critic_joint_fc_layer_params": (256, 256),
    "num_iter": 1000,
    "num_steps_per_iter": 50,
    "n_episodes_in_buffer": 350,
    "n_train_episodes_per_iter": 1,
    "n_eval_episodes": 5,
    "n_buffer_init_episodes": 30,
    "eval_period_itrs": 250,
    "log_period_itrs": 10,
    "checkpoint_period_itrs": 250,
    "prefetch_batches": 3,
    "train_batch_size": 256,
    "recurrent": False,
    "recurrent_sequence_length": 20,
    "seed_sac_buffer": True,
    "preprocessing_combiner": None,
}


def check(name, value, where="params.py"):
    check_hyperparameter(DECLARED, name, value, where)


def test_published_names_and_defaults():
    settings = {**vars(TrainingSettings()), **vars(AgentSettings())}
    assert {name: settings.get(name, "absent") for name in PUBLISHED} == PUBLISHED


def test_what_a_class_and_its_bases_declare_is_found_and_nothing_else():
    @dataclasses.dataclass
    class Mine(AgentSettings):
        num_goals: int = count(3, "goals per episode")
        note: str = "not declared as a hyperparameter"

    assert hyperparameters(Mine).keys() == {*hyperparameters(AgentSettings), "num_goals"}
    assert hyperparameters(Mine)["num_goals"].meaning == "goals per episode"


def test_settings_of_system_and_algorithm_are_apart():
    assert hyperparameters(TrainingSettings).keys() & hyperparameters(AgentSettings).keys() == set()


def test_every_default_is_allowed():
    for name, declared in DECLARED.items():
        check(name, declared.default)  # raises with the name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("discount", 0),
        ("discount", 1),
        ("discount", 1.0),
        ("log_info", ("distance",)),
        ("log_info", ["reward_*:last", "a:b:min"]),
        ("target_update_tau", 1),
        ("gradient_clipping", 10),
        ("gradient_clipping", 10**10),
        ("num_iter", 10**9),
        ("sac_log_alpha", -3.5),
        ("sac_log_alpha", 0),
        ("actor_fc_layer_params", [64]),
        ("actor_fc_layer_params", ()),
        ("n_eval_episodes", 0),
        ("eval_period_itrs", 0),
        ("matmul_precision", "int16"),
        ("recurrent_sequence_length", 2),
        ("preprocessing_combiner", sum),
    ],
)
def test_value_at_the_edge_of_its_range_is_allowed(name, value):
    check(name, value)


NAN, INF = float("nan"), float("inf")
AT_LEAST_1 = "an integer >= 1 and <= 1000000000"


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("discount", 1.01, r"a number in \[0, 1\]"),
        ("discount", -0.1, r"a number in \[0, 1\]"),
        ("discount", NAN, r"a number in \[0, 1\]"),
        ("discount", True, r"a number in \[0, 1\]"),
        ("discount", "0.9", r"a number in \[0, 1\]"),
        ("actor_learning_rate", 0, "a number > 0"),
        ("critic_learning_rate", -1e-3, "a number > 0"),
        ("alpha_learning_rate", INF, "a number > 0"),
        ("target_update_tau", 0, r"a number in \(0, 1\]"),
        ("target_update_period", 0, AT_LEAST_1),
        ("gradient_clipping", 0, "None or a number > 0"),
        ("sac_log_alpha", None, "a number"),
        ("sac_log_alpha", NAN, "a number"),
        ("actor_fc_layer_params", 256, "a tuple of integers > 0"),
        ("actor_fc_layer_params", (256, 0), "a tuple of integers > 0"),
        ("critic_joint_fc_layer_params", (256.0,), "a tuple of integers > 0"),
        ("num_iter", 10.0, AT_LEAST_1),
        ("num_iter", True, AT_LEAST_1),
        ("n_eval_episodes", -1, "an integer >= 0 and <= 1000000000"),
        ("recurrent", 1, "True or False"),
        ("recurrent_sequence_length", 1, "an integer >= 2 and <= 1000000000"),
        ("preprocessing_combiner", "concat", "None or a Keras layer"),
        ("discount", 10**400, r"a number in \[0, 1\]"),
        pytest.param("sac_log_alpha", -(1 << 99_999), "a number", id="huge and negative"),
        ("gradient_clipping", 10**400, "None or a number > 0"),
        ("num_iter", 10**9 + 1, AT_LEAST_1),
        pytest.param("train_batch_size", 1 << 99_999, AT_LEAST_1, id="huge"),
        ("fresh_samples_per_step", 10**10, f"None or {AT_LEAST_1}"),
        ("matmul_precision", "bfloat32", 'one of "auto", "float32", "bfloat16", "int16"'),
        ("her_copies", -1, "an integer >= 0 and <= 1000000000"),
        ("her_strategy", "random", 'one of "future", "final", "episode"'),
        ("exploration_noise_beta", -0.5, r"a number in \[0, 2\]"),
        ("exploration_noise_beta", 2.5, r"a number in \[0, 2\]"),
        ("matmul_precision", 32, 'one of "auto", "float32", "bfloat16", "int16"'),
        ("actor_fc_layer_params", (10**10,), "a tuple of integers > 0"),
        ("recurrent", "x" * 10_000, "True or False"),
        ("log_info", "distance", "a list of keys of the info, .*:mean, :min, :max, :last"),
        ("log_info", ["distance:median"], "a list of keys of the info, .*"),
        ("log_info", [":last"], "a list of keys of the info, .*"),
        ("log_info", [1], "a list of keys of the info, .*"),
    ],
)
def test_value_out_of_range_names_where_name_value_and_range(name, value, allowed):
    with pytest.raises(ConfigError, match=rf"^params.py: {name} is .+; expected {allowed}\.$"):
        check(name, value)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [("train_batch_size", np.int64(256), "int64"), ("recurrent", np.bool_(True), "bool_"),
     ("discount", np.float32(0.5), "float32")],
)  # fmt: skip
def test_a_number_of_numpy_is_told_from_pythons(name, value, kind):
    shown = re.escape(f"{value} (a numpy.{kind}; its tolist() is Python's own); expected ")
    with pytest.raises(ConfigError, match=f"^params.py: {name} is {shown}"):
        check(name, value)
    check(name, value.tolist())


def test_unknown_name_names_the_nearest():
    with pytest.raises(ConfigError) as error:
        check("train_bach_size", 1, "gin bindings")
    assert str(error.value) == (
        "gin bindings: train_bach_size is not a training parameter. Did you mean train_batch_size?"
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gamma", "discount."),
        ("polyak", "1 - target_update_tau."),
        ("learning_rate", "actor_learning_rate, critic_learning_rate and alpha_learning_rate."),
        ("seed", "--seed, or the variable SAC_SEED."),
        ("horizon", "horizon in the experiment's JSON config, the file that SAC_CONFIG names."),
        ("workers", "the variable SAC_NUM_COLLECT_WORKERS."),
        ("num_workers", "the variable SAC_NUM_COLLECT_WORKERS."),
        ("env", "--env of sac train, or the method env_ctor in the params file."),
        ("exp_name", "--name, or the variable SAC_EXP_NAME."),
        ("train_cpus", "the variable SAC_TRAIN_CPUS."),
        ("SAC_TRAIN_CPUS", "the variable SAC_TRAIN_CPUS."),
        ("env_timeout_secs", "the variable SAC_ENV_TIMEOUT_SECS."),
        ("actor_ctor", "the method actor_ctor of TrainParams, in the params file."),
    ],
)
def test_a_name_that_is_set_elsewhere_says_where(name, meant):
    with pytest.raises(ConfigError) as error:
        check(name, 1, "--set")
    assert str(error.value) == f"--set: {name} is not a training parameter. Here it is {meant}"


def test_no_name_of_another_library_is_one_of_ours():
    assert not DECLARED.keys() & NAMES_ELSEWHERE.keys()
    variables = {name.removeprefix("SAC_").lower() for name in VARIABLES}
    assert not DECLARED.keys() & variables
    words = {
        word for text in NAMES_ELSEWHERE.values() for word in re.findall(r"[a-z_]+_[a-z_]+", text)
    }
    assert words <= {*DECLARED, *HOOKS}


def test_first_fill_larger_than_the_buffer_raises():
    settings = TrainingSettings(n_buffer_init_episodes=31, n_episodes_in_buffer=30)
    with pytest.raises(ConfigError, match=r"n_buffer_init_episodes \(31\) exceeds .*\(30\)"):
        check_training_settings(settings, horizon=10, where="params.py")
    settings.n_episodes_in_buffer = 31
    check_training_settings(settings, horizon=10, where="params.py")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"eval_period_itrs": 20}, r"\(50\) is not a multiple of .*\(20\).* Nearest is 40 or 60\."),
        ({"eval_period_itrs": 60}, r"\(50\) is not a multiple of .*\(60\).* Nearest is 60\."),
        ({"eval_period_itrs": 0}, "is 50, but eval_period_itrs is 0"),
        ({"eval_period_itrs": 50, "n_eval_episodes": 0}, "is 50, but n_eval_episodes is 0"),
    ],
)
def test_films_between_evaluations_raise(changed, message):
    settings = TrainingSettings(video_period_itrs=50, **changed)
    with pytest.raises(ConfigError, match=f"^params.py: video_period_itrs {message}"):
        check_training_settings(settings, horizon=10, where="params.py")
    settings.video_period_itrs = 0
    check_training_settings(settings, horizon=10, where="params.py")


def test_films_of_every_second_evaluation_are_allowed():
    settings = TrainingSettings(video_period_itrs=50, eval_period_itrs=25)
    check_training_settings(settings, horizon=10, where="params.py")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"recurrent": True, "recurrent_sequence_length": 5}, "is 3 and recurrent is True"),
        ({"fresh_samples_per_step": None}, r"\(None\) is not below train_batch_size \(256\)"),
        ({"train_batch_size": 64}, r"\(64\) is not below train_batch_size \(64\)"),
    ],
)
def test_returns_over_steps_need_the_pool(changed, message):
    settings = TrainingSettings(n_step_returns=3, **changed)
    with pytest.raises(ConfigError, match=f"^params.py: n_step_returns .*{message}"):
        check_training_settings(settings, horizon=10, where="params.py")
    settings.n_step_returns = 1
    check_training_settings(settings, horizon=10, where="params.py")


@pytest.mark.parametrize(
    "changed",
    [{"recurrent": True}, {"n_step_returns": 3}, {"frame_stack": 2}, {"action_repeat": 2}],
)
def test_copies_with_other_goals_are_of_single_env_steps(changed):
    settings = TrainingSettings(her_copies=4, **changed)
    ((name, value),) = changed.items()
    with pytest.raises(ConfigError, match=f"her_copies is 4 and {name} is {value}; expected"):
        check_training_settings(settings, horizon=100, where="params.py")
    settings.her_copies = 0
    check_training_settings(settings, horizon=100, where="params.py")


def test_sequence_longer_than_the_horizon_raises_if_recurrent():
    settings = TrainingSettings(recurrent=True, recurrent_sequence_length=11)
    with pytest.raises(ConfigError, match=r"recurrent_sequence_length \(11\) exceeds .*\(10\)"):
        check_training_settings(settings, horizon=10, where="params.py")
    check_training_settings(settings, horizon=11, where="params.py")
    settings.recurrent = False
    check_training_settings(settings, horizon=10, where="params.py")


def test_segments_need_recurrent_networks_and_episodes_as_long_as_they_are():
    settings = TrainingSettings(recurrent=True, segment_len=11)
    with pytest.raises(ConfigError, match=r"segment_len \(11\) exceeds .*\(10\).* one segment"):
        check_training_settings(settings, horizon=10, where="params.py")
    check_training_settings(settings, horizon=11, where="params.py")  # whole episodes
    settings.recurrent = False
    with pytest.raises(ConfigError, match="segment_len is 11 and recurrent is False.* None"):
        check_training_settings(settings, horizon=11, where="params.py")


def test_burn_in_leaves_something_of_each_sequence():
    settings = TrainingSettings(recurrent=True, burn_in_len=20, recurrent_sequence_length=20)
    message = r"burn_in_len is 20; expected less than recurrent_sequence_length \(20\)"
    with pytest.raises(ConfigError, match=message):
        check_training_settings(settings, horizon=100, where="params.py")
    settings.segment_len = 21
    check_training_settings(settings, horizon=100, where="params.py")
    settings.segment_len = 19
    with pytest.raises(ConfigError, match=r"expected less than segment_len \(19\)"):
        check_training_settings(settings, horizon=100, where="params.py")


@pytest.mark.parametrize(
    ("name", "value", "unused"), [("burn_in_len", 1, 0), ("stored_state", True, False)]
)
def test_burn_in_and_stored_state_need_recurrent_networks(name, value, unused):
    settings = TrainingSettings(**{name: value})
    message = f"{name} is {value} and recurrent is False; expected {unused}"
    with pytest.raises(ConfigError, match=message):
        check_training_settings(settings, horizon=100, where="params.py")


@pytest.mark.parametrize(
    ("name", "is_recurrent"), [("state_value_network", False), ("share_summarizer", True)]
)
def test_networks_that_need_or_forbid_recurrent_ones(name, is_recurrent):
    settings = AgentSettings(**{name: True})
    with pytest.raises(
        ConfigError,
        match=f"params.py: {name} is True and recurrent is {not is_recurrent}; expected",
    ):
        check_agent_settings(settings, not is_recurrent, where="params.py")
    check_agent_settings(settings, is_recurrent, where="params.py")
