import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.hyperparameters import (
    HOOKS,
    HYPERPARAMETERS,
    check_attribute_name,
    check_consistency,
    check_hyperparameter,
)

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


def defaults(**changes):
    return {name: h.default for name, h in HYPERPARAMETERS.items()} | changes


def test_published_names_and_defaults():
    values = defaults()
    assert {name: values.get(name, "absent") for name in PUBLISHED} == PUBLISHED


@pytest.mark.parametrize("name", HYPERPARAMETERS)
def test_every_default_is_allowed(name):
    check_hyperparameter(name, HYPERPARAMETERS[name].default, "params.py")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("discount", 0),
        ("discount", 1),
        ("discount", 1.0),
        ("target_update_tau", 1),
        ("gradient_clipping", 10),
        ("gradient_clipping", 10**10),
        ("num_iter", 10**9),
        ("sac_log_alpha", -3.5),
        ("sac_log_alpha", 0),
        ("actor_fc_layer_params", [64]),
        ("actor_fc_layer_params", ()),
        ("n_eval_episodes", 0),
        ("recurrent_sequence_length", 2),
        ("preprocessing_combiner", sum),
    ],
)
def test_value_at_the_edge_of_its_range_is_allowed(name, value):
    check_hyperparameter(name, value, "params.py")


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
        ("exploration_noise_beta", -0.5, r"a number in \[0, 2\]"),
        ("exploration_noise_beta", 2.5, r"a number in \[0, 2\]"),
        ("matmul_precision", 32, 'one of "auto", "float32", "bfloat16", "int16"'),
        ("actor_fc_layer_params", (10**10,), "a tuple of integers > 0"),
        ("recurrent", "x" * 10_000, "True or False"),
    ],
)
def test_value_out_of_range_names_where_name_value_and_range(name, value, allowed):
    with pytest.raises(ConfigError, match=rf"^params.py: {name} is .+; allowed is {allowed}\.$"):
        check_hyperparameter(name, value, "params.py")


def test_unknown_name_names_the_nearest():
    with pytest.raises(ConfigError) as error:
        check_hyperparameter("train_bach_size", 1, "gin bindings")
    assert str(error.value) == (
        "gin bindings: train_bach_size is not a training parameter. Did you mean train_batch_size?"
    )


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("num_iters", "num_iter"),
        ("discout", "discount"),
        ("n_eval_episode", "n_eval_episodes"),
        ("env_ctr", "env_ctor"),
        ("collect_env_arg_kwargs", "collect_env_args_kwargs"),
    ],
)
def test_misspelt_attribute_names_the_nearest(misspelt, meant):
    with pytest.raises(ConfigError, match=f"params.py: TrainParams.{misspelt} is not .*{meant}\\?"):
        check_attribute_name(misspelt, "params.py")


@pytest.mark.parametrize(
    "name", [*HYPERPARAMETERS, *HOOKS, "env_config", "robot", "_num_iters", "reward_scale"]
)
def test_published_and_own_attributes_are_allowed(name):
    check_attribute_name(name, "params.py")


def test_first_fill_larger_than_the_buffer_raises():
    values = defaults(n_buffer_init_episodes=31, n_episodes_in_buffer=30)
    with pytest.raises(ConfigError, match=r"n_buffer_init_episodes \(31\) exceeds .*\(30\)"):
        check_consistency(values, horizon=10, where="params.py")
    check_consistency(values | {"n_episodes_in_buffer": 31}, horizon=10, where="params.py")


def test_sequence_longer_than_the_horizon_raises_if_recurrent():
    values = defaults(recurrent=True, recurrent_sequence_length=11)
    with pytest.raises(ConfigError, match=r"recurrent_sequence_length \(11\) exceeds .*\(10\)"):
        check_consistency(values, horizon=10, where="params.py")
    check_consistency(values, horizon=11, where="params.py")
    check_consistency(values | {"recurrent": False}, horizon=10, where="params.py")


@pytest.mark.parametrize("name", ["actor_fc_layer_params", "critic_joint_fc_layer_params"])
def test_no_layers_raise_if_recurrent(name):
    values = defaults(recurrent=True) | {name: ()}
    with pytest.raises(ConfigError, match=rf"{name} is \(\); a recurrent network needs at least"):
        check_consistency(values, horizon=100, where="params.py")
    check_consistency(values | {"recurrent": False}, horizon=100, where="params.py")
