import pytest

from tfagents_system.agents.agent_settings import AgentSettings
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.attribute_names import HOOKS, check_attribute_name
from tfagents_system.core.settings.hyperparameters import hyperparameters
from tfagents_system.core.settings.training_settings import TrainingSettings

DECLARED = hyperparameters(TrainingSettings, AgentSettings)


def judge(name, is_method=False):
    return check_attribute_name(name, DECLARED, "params.py:3", is_method)


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("num_iters", "num_iter"),
        ("nm_iter", "num_iter"),
        ("numiter", "num_iter"),
        ("Num_Iter", "num_iter"),
        ("nmu_iter", "num_iter"),
        ("discout", "discount"),
        ("discoumt", "discount"),
        ("n_eval_episode", "n_eval_episodes"),
        ("actor_learning_rte", "actor_learning_rate"),
        ("actorlearningrate", "actor_learning_rate"),
        ("criticlearning_rates", "critic_learning_rate"),
        ("train_batchsize", "train_batch_size"),
        ("train_bach_size", "train_batch_size"),
        ("eval_period_iters", "eval_period_itrs"),
        ("critic_joint_fc_layers_params", "critic_joint_fc_layer_params"),
        ("env_ctr", "env_ctor"),
        ("collect_env_arg_kwargs", "collect_env_args_kwargs"),
    ],
)
def test_a_typing_error_is_refused_with_the_published_name(misspelt, meant):
    with pytest.raises(ConfigError) as error:
        judge(misspelt)
    assert str(error.value).startswith(
        f"params.py:3: TrainParams.{misspelt} is not a training parameter. Did you mean {meant}?"
    )


@pytest.mark.parametrize(
    ("own", "nearest"),
    [
        ("exploration_noise_scale", "exploration_noise_std"),
        ("encoder_learning_rate", "actor_learning_rate"),
        ("actor_update_period", "target_update_period"),
        ("critic_fc_layer_params", "critic_joint_fc_layer_params"),
        ("critic_learning_rate_2", "critic_learning_rate"),
        ("actor_fc_layer_params2", "actor_fc_layer_params"),
        ("num_items", "num_iter"),
        ("q_discount", "discount"),
        ("recurrence", "recurrent"),
    ],
)
def test_an_attribute_of_the_users_own_that_resembles_a_published_name_is_a_note(own, nearest):
    note = judge(own)
    assert note is None or note == (
        f"params.py:3: TrainParams.{own} counts as an attribute of your own; the nearest "
        f"published name is {nearest}."
    )
    assert note or own in ("num_items", "recurrence")  # less alike


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("gamma", "discount"),
        ("learning_rate", "actor_learning_rate, critic_learning_rate and alpha_learning_rate"),
        ("hidden_units", "actor_fc_layer_params and critic_joint_fc_layer_params"),
        ("min_replay_size", "n_buffer_init_episodes, in episodes"),
        ("seed", "--seed, or the variable SAC_SEED"),
    ],
)
def test_a_setting_of_another_library_that_nothing_would_read_is_a_note(name, here):
    assert judge(name) == (
        f"params.py:3: TrainParams.{name} counts as an attribute of your own. If it is to be the "
        f"setting of that name in other libraries: here it is {here}."
    )
    assert judge(name, is_method=True) is None or name == "learning_rate"  # like a published one


def test_published_and_quite_different_names_need_no_note():
    names = [*DECLARED, *HOOKS, "env_config", "robot", "_num_iters", "reward_scale", "gains"]
    names += ["env_name", "env_kwargs", "name"]  # for env_ctor
    notes = {name: judge(name) for name in names}
    assert {name: note for name, note in notes.items() if note is not None} == {}


@pytest.mark.parametrize("name", ["reward_ctor", "env_args_kwargs", "collect_driver_ctor"])
def test_a_method_that_looks_like_a_hook_and_is_none_is_named(name):
    note = judge(name, is_method=True)
    assert note.startswith(f"params.py:3: TrainParams.{name} is not a hook of this system: nothing")
    assert all(hook in note for hook in HOOKS)


@pytest.mark.parametrize("name", ["reset_arm", "reward", "_make_ctor"])
def test_a_method_of_the_users_own_is_not_named(name):
    assert judge(name, is_method=True) is None
