"""The interface of the user's TrainParams that programs use."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from tfagents_system.core.settings.training_settings import TrainingSettings


class Params(TrainingSettings):
    """The hyperparameters and hooks that more than one package of the system uses.

    `train_params_base.TrainParamsBase` documents the hooks. They are user code, so they are called
    through `hooks.call_hook` and `hooks.call_method`.
    """

    check: Callable[[str], list[str]]
    hyperparameters: Callable[[], dict[str, Any]]

    env_ctor: Callable[..., Any]
    collect_env_args_kwargs: Callable[..., Any]
    eval_env_args_kwargs: Callable[..., Any]
    train_observers_ctor: Callable[..., Any]
    eval_observers_ctor: Callable[..., Any]
    sample_parameter: Callable[..., Any]
    callbacks: Callable[..., Any]
    agent_ctor: Callable[..., Any]
    reward_signals_ctor: Callable[..., Any]

    # Hyperparameters of agents, declared in `agents`, that other packages need, too.
    discount: float
    reward_signals: Mapping[str, Mapping[str, Any]] | None
    behavioral_cloning: Mapping[str, Any] | None
    actor_fc_layer_params: Sequence[int]
    critic_joint_fc_layer_params: Sequence[int]
    critic_observations: Sequence[str]
    entity_observations: Sequence[str]
    goal_observations: Sequence[str]
    goal_conditioning_type: Literal["hyper", "none"]
    image_encoder: str | None
    image_augmentation: int
    preprocessing_combiner: Callable[..., Any] | None

    def __init__(self, env_config: dict[str, Any]):
        """`env_config` is the parsed JSON config, with at least the key `horizon`."""
        self.env_config = env_config
