"""The hyperparameters of the built-in agents. Imports no TensorFlow."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

from tfagents_system.agents.table import ALGORITHMS, OwnSettings
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.behavioral_cloning import (
    CLONING_ALLOWED,
    check_behavioral_cloning,
    is_behavioral_cloning,
)
from tfagents_system.core.settings.hyperparameters import (
    are_names,
    count,
    declare,
    flag,
    hyperparameters,
    is_number,
    layers,
    number_between,
    one_of,
    optional_count,
    optional_flag,
    optional_positive,
    positive,
)
from tfagents_system.core.settings.params import Params
from tfagents_system.core.settings.reward_signals import (
    REWARD_SIGNALS_ALLOWED,
    check_reward_signals,
    is_reward_signals,
)
from tfagents_system.core.settings.training_settings import check_training_settings

LearningRateSchedule = Literal["constant", "linear"]
IMAGE_ENCODERS = ("nature_cnn", "simple", "offpcc", "impala", "match3", "fully_connected")
PAIR = 2  # critics of SAC; more are an ensemble
GoalConditioningType = Literal["hyper", "none"]
RnnType = Literal["lstm", "gru", "rnn"]


@dataclasses.dataclass(eq=False, repr=False)
class SharedSettings:
    """The settings of every built-in agent and its networks."""

    algorithm: str = one_of(
        tuple(ALGORITHMS),
        "sac",
        "the algorithm: " + ", ".join(f"{row.name} ({row.title})" for row in ALGORITHMS.values()),
    )
    discount: float = number_between(0, 1, 0.99, "discount factor per env step")
    reward_signals: Mapping[str, Mapping[str, Any]] | None = declare(
        None,
        is_reward_signals,
        REWARD_SIGNALS_ALLOWED,
        "rewards that SAC learns from, each with its own discount and values: extrinsic, which is "
        "the environment's, and signals that are learned, with settings of each; None: the "
        "environment's alone",
    )
    behavioral_cloning: Mapping[str, Any] | None = declare(
        None,
        is_behavioral_cloning,
        CLONING_ALLOWED,
        "after each train step, trains the actor to act as in the `demonstrations`, on a minibatch "
        "of theirs: its learning rate begins at `strength` times the actor's and falls to 0 after "
        "`steps` train steps; None: does not",
    )
    critic_learning_rate: float = positive(3e-4, "Adam learning rate of the critics")
    actor_learning_rate: float = positive(3e-4, "Adam learning rate of the actor")
    learning_rate_schedule: LearningRateSchedule = one_of(
        get_args(LearningRateSchedule),
        "constant",
        "schedule of the learning rates of actor and critics: linear decays to 0 at the last step",
    )
    target_update_tau: float = declare(
        0.005,
        lambda v: is_number(v) and 0 < v <= 1,
        "a number in (0, 1]",
        "weight of a network in each soft update of its target",
    )
    target_update_period: int = count(
        1, "train steps between updates of the target networks; with TD3 only in steps of the actor"
    )
    policy_delay: int | None = optional_count(
        None,
        "train steps of the critics for each of the actor, with TD3 also of the target networks; "
        "None is the value of the algorithm's paper: "
        + ", ".join(
            f"{row.policy_delay} for {row.name}{'' if row.may_delay_policy else ', always'}"
            for row in ALGORITHMS.values()
        ),
    )
    gradient_clipping: float | None = optional_positive(
        None, "maximum global gradient norm of each network; None: no clipping"
    )
    actor_fc_layer_params: Sequence[int] = layers((256, 256), "units of the actor's hidden layers")
    critic_joint_fc_layer_params: Sequence[int] = layers(
        (256, 256), "units of each critic's hidden layers"
    )
    critic_ensemble: int = count(
        PAIR,
        "critics of SAC; 2: targets take the smaller value of both, and so does the actor; more: "
        "targets take the smallest of `critic_ensemble_subset`, and the actor the mean of all; "
        "RLPD has 10",
        at_least=PAIR,
    )
    critic_ensemble_subset: int = count(
        2, "critics, drawn for each minibatch, that give the targets of more than 2 critics"
    )
    critic_layer_norm: bool = flag(
        False,
        "layer normalization in the critics' hidden layers, which stabilizes many train steps per "
        "env step",
    )
    critic_dropout_rate: float = declare(
        0.0,
        lambda v: is_number(v) and 0 <= v < 1,
        "a number in [0, 1)",
        "share of units that dropout removes in the critics' hidden layers, with "
        "`critic_layer_norm`; DroQ has 0.01",
    )
    rnn_type: RnnType = one_of(
        get_args(RnnType),
        "lstm",
        "cells of the recurrent layers, if `recurrent`; rnn is plain",
    )
    rnn_units: int = count(256, "units of each recurrent layer")
    rnn_layers: int = count(1, "recurrent layers, before the hidden layers")
    share_summarizer: bool = flag(
        False,
        "one stack of recurrent layers for actor and critics, trained only by the critics' loss; "
        "False: each network has its own",
    )
    critic_observations: Sequence[str] = declare(
        (),
        are_names,
        'a list of different names, such as ["goal", "arm/torque"]',
        "leaves of a dict observation that only critics see in training, such as the simulator's "
        "state; neither the actor nor an exported policy has an input for them",
    )
    goal_observations: Sequence[str] = declare(
        (),
        are_names,
        'a list of different names, such as ["goal", "arm/target"]',
        "arrays of the observation that tell what is to be achieved, beside those that the "
        "environment itself calls goals; named as `entity_observations`",
    )
    goal_conditioning_type: GoalConditioningType = one_of(
        get_args(GoalConditioningType),
        "hyper",
        "what networks do with goals: hyper generates the weights of the last hidden layer from "
        "them, none takes them as inputs only; a generated layer of n units after n others has "
        "about n^3 weights",
    )
    entity_observations: Sequence[str] = declare(
        (),
        are_names,
        'a list of different names, such as ["blocks", "arm/obstacles"]',
        "arrays [most entities, features] of the observation that list what there is, in any "
        "number: rows of zeros are absent. Networks attend to the others, and take their mean; the "
        'name of an array that is not in a dict is "observation"',
    )
    normalize_observations: bool = flag(
        False,
        "normalize each number of observations, except images and entities, by its running mean "
        "and variance; the statistics belong to the policy, and are saved and exported with it",
    )
    normalize_rewards: bool | None = optional_flag(
        None,
        "train critics on rewards divided by the standard deviation of discounted returns, or by a "
        "fifth of the largest return if that is more; None is what the algorithm's paper has: True "
        "for " + ", ".join(row.name for row in ALGORITHMS.values() if row.normalizes_rewards),
    )
    image_encoder: str | None = declare(
        None,
        lambda v: v is None or v in IMAGE_ENCODERS,
        "None or one of " + ", ".join(f'"{kind}"' for kind in IMAGE_ENCODERS),
        "convolutions for images, unless there is a preprocessing_combiner; None chooses by the "
        "shorter side: nature_cnn from 36 pixels, simple from 20, impala from 15, match3 from 5; "
        "actor and critics share them, and only the critics' loss trains them; if `recurrent` "
        "without `share_summarizer`, or with `critic_observations`, each network has its own",
    )
    image_augmentation: int = count(
        0,
        "maximum pixels by which each image of a minibatch is shifted at random, against "
        "overfitting; 4 is usual, 0: no shifts",
        at_least=0,
    )
    preprocessing_combiner: Callable[..., Any] | None = declare(
        None,
        lambda v: v is None or callable(v),
        "None or a Keras layer",
        "Keras layer that joins the parts of a nested observation into one vector [B, n]; it "
        "receives the nest, or the list of its parts if it is a merge layer such as `Concatenate`",
    )


@dataclasses.dataclass(eq=False, repr=False)
class AgentSettings(OwnSettings, SharedSettings):  # the fields of the last base come first
    """The settings of all built-in agents: shared ones, and those of each algorithm."""


class AgentParams(Params, AgentSettings):
    """The part of a TrainParams from which agents are built."""

    state_value_ctor: Callable[..., Any]


def check_together(settings: AgentParams, horizon: int, where: str) -> None:
    """Raises ConfigError for settings that are valid individually but do not fit together."""
    check_training_settings(settings, horizon, where)
    check_agent_settings(settings, settings.recurrent, where)
    check_reward_signals(settings, where)
    check_behavioral_cloning(settings, where)


def check_agent_settings(settings: AgentSettings, is_recurrent: bool, where: str) -> None:
    """Raises ConfigError for settings of the agent that do not fit together."""
    if settings.share_summarizer and not is_recurrent:
        raise ConfigError(
            f"{where}: share_summarizer is True and recurrent is False; expected recurrent = True."
        )
    if settings.share_summarizer and settings.critic_observations:
        raise ConfigError(
            f"{where}: share_summarizer is True, and critic_observations is "
            f"{list(settings.critic_observations)}; expected share_summarizer = False: "
            "the actor must not see those, and what is shared has them."
        )
    if settings.critic_dropout_rate and not settings.critic_layer_norm:
        raise ConfigError(
            f"{where}: critic_dropout_rate is {settings.critic_dropout_rate} and critic_layer_norm "
            "is False; expected critic_layer_norm = True, because dropout alone makes critics "
            "unstable."
        )
    if settings.entity_observations and settings.preprocessing_combiner is not None:
        raise ConfigError(
            f"{where}: entity_observations is {list(settings.entity_observations)}, and there is a "
            "preprocessing_combiner; expected one of them: the combiner joins all arrays itself."
        )
    _check_ensemble(settings, where)
    if settings.reward_signals:
        _check_reward_signals(settings, where)
    ALGORITHMS[settings.algorithm].check(settings, is_recurrent, where)


def _check_ensemble(settings: AgentSettings, where: str) -> None:
    size, subset = settings.critic_ensemble, settings.critic_ensemble_subset
    able = [name for name, row in ALGORITHMS.items() if row.has_ensembles]
    if size > PAIR and settings.algorithm not in able:
        raise ConfigError(
            f"{where}: critic_ensemble is {size} and algorithm is {settings.algorithm!r}; expected "
            f"critic_ensemble = {PAIR}: only {' and '.join(able)} may have more."
        )
    if subset > size or (size == PAIR and subset < PAIR):
        allowed = f"{PAIR}" if size == PAIR else f"an integer from 1 to {size}"
        raise ConfigError(
            f"{where}: critic_ensemble_subset is {subset} and critic_ensemble is {size}; expected "
            f"critic_ensemble_subset to be {allowed}."
        )


def _check_reward_signals(settings: AgentSettings, where: str) -> None:
    able = [name for name, row in ALGORITHMS.items() if row.has_streams]
    if settings.algorithm not in able:
        raise ConfigError(
            f"{where}: algorithm is {settings.algorithm!r}, and there are reward_signals; expected "
            f"{' or '.join(map(repr, able))}, whose critics have a value of each stream."
        )
    if settings.normalize_rewards:
        raise ConfigError(
            f"{where}: normalize_rewards is True, and there are reward_signals; expected "
            "normalize_rewards = False: set the strength of each signal."
        )


def unused_settings(settings: AgentSettings) -> list[str]:
    """Returns the names of changed settings that the algorithm does not use."""
    algorithm = ALGORITHMS[settings.algorithm]
    used = hyperparameters(*algorithm.settings).keys() - set(algorithm.ignores)
    return [
        name
        for name, declared in hyperparameters(OwnSettings).items()
        if name not in used and getattr(settings, name) != declared.default
    ]


def own_policy_delay(settings: AgentSettings) -> int:
    """Returns `policy_delay`, or the default of the algorithm's paper."""
    row = ALGORITHMS[settings.algorithm]
    given = settings.policy_delay if row.may_delay_policy else None
    return given or row.policy_delay


def normalizes_rewards(settings: AgentSettings) -> bool:
    """Returns `normalize_rewards`, or the value in the algorithm's paper."""
    given = settings.normalize_rewards
    return ALGORITHMS[settings.algorithm].normalizes_rewards if given is None else given
