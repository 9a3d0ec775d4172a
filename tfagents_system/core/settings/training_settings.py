"""The system's hyperparameters: collection, replay, the learner's loop, periods."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.hyperparameters import (
    MOST_COUNT,
    count,
    declare,
    flag,
    is_count,
    is_number,
    number_between,
    one_of,
    optional_count,
    positive,
)
from tfagents_system.core.settings.image_layouts import IMAGE_LAYOUTS_ALLOWED, is_image_layouts
from tfagents_system.core.settings.info_patterns import LOG_INFO_ALLOWED, is_log_info
from tfagents_system.core.settings.minibatches import check_minibatches, is_demonstrations
from tfagents_system.core.settings.stop_condition import (
    STOP_WHEN_ALLOWED,
    TIME,
    is_stop_when,
    parse_stop_when,
    unknown_quantity,
)

UpdateRatio = Literal["fixed", "auto"]
HerStrategy = Literal["future", "final", "episode"]
MatmulPrecision = Literal["auto", "float32", "bfloat16", "int16"]


@dataclasses.dataclass(eq=False, repr=False)
class TrainingSettings:
    """The settings of training with any algorithm; `agents` has those of each algorithm."""

    num_iter: int = count(1000, "iterations until training is finished")
    num_steps_per_iter: int = count(50, "train steps (gradient updates) per iteration")
    n_episodes_in_buffer: int = count(350, "replay capacity, in episodes of `horizon` env steps")
    n_train_episodes_per_iter: int = count(
        1, "episodes of `horizon` env steps all workers together collect per iteration"
    )
    update_ratio: UpdateRatio = one_of(
        get_args(UpdateRatio),
        "fixed",
        "train steps per env step: fixed is `num_steps_per_iter` for `n_train_episodes_per_iter` "
        "episodes, and the faster side waits for the other; auto is as many as the learner can do "
        "without making workers wait, up to `max_update_ratio`",
    )
    max_update_ratio: float = positive(
        4.0, "maximum of train steps per env step, if `update_ratio` is auto"
    )
    n_eval_episodes: int = count(5, "greedy episodes per evaluation, over all workers", at_least=0)
    n_buffer_init_episodes: int = count(
        30, "episodes of `horizon` env steps collected before the first train step"
    )
    seed_sac_buffer: bool = flag(
        True,
        "collect the first `n_buffer_init_episodes` with the random policy; "
        "False collects them with the untrained policy",
    )
    eval_period_itrs: int = count(
        250, "iterations between evaluations; 0: no evaluation", at_least=0
    )
    stop_when: str | None = declare(
        None,
        is_stop_when,
        STOP_WHEN_ALLOWED,
        "ends training early, as if it had reached `num_iter`: a condition such as success >= 0.95 "
        "for 3 evaluations, return >= 900, time >= 2h, or on a number of `log_info`; None: "
        "`num_iter` alone",
    )
    video_period_itrs: int = count(
        0,
        "iterations between videos, each of the first episode of an evaluation, in "
        "`videos/training`: a multiple of `eval_period_itrs`; 0: no video",
        at_least=0,
    )
    log_period_itrs: int = count(10, "iterations between TensorBoard summaries")
    log_info: tuple[str, ...] = declare(
        (),
        is_log_info,
        LOG_INFO_ALLOWED,
        "numbers in the environment's info to record of each episode: keys, or patterns of keys, "
        "such as distance or reward_*; after a colon the statistic, mean (if not given), min, max "
        "or last",
    )
    checkpoint_period_itrs: int = count(250, "iterations between checkpoints")
    checkpoint_period_secs: float = positive(
        60.0,
        "longest time between checkpoints of the training state, in seconds, unless saving would "
        "take more than 5 % of the time; policies are exported only every "
        "`checkpoint_period_itrs`",
    )
    journal_max_mb: float = declare(
        256.0,
        lambda v: is_number(v) and v >= 0,
        "a number >= 0",
        "largest journal of a worker, in MB: the steps sent since the last checkpoint but one, "
        "from which it sends again what a crash of the replay server has lost; 0: no journal",
    )
    prefetch_batches: int = count(
        3, "minibatches of samples that the learner requests ahead from the replay server"
    )
    train_batch_size: int = count(256, "transitions (or sequences) per minibatch")
    fresh_samples_per_step: int | None = optional_count(
        64,
        "new transitions (or sequences) from the replay server per train step: they replace the "
        "oldest in the learner's pool, from which it draws its minibatches; a multiple of 8 is "
        "fastest; None draws every minibatch from the server",
    )
    demonstrations: str | Sequence[str] | None = declare(
        None,
        is_demonstrations,
        "None, a path or a list of paths",
        "files or folders of demonstrations, or experiments, of which each minibatch has a share; "
        "relative to the current folder, or else to that of the params file; a run copies them "
        "into its folder",
    )
    demonstration_share: float = declare(
        0.5,
        lambda v: is_number(v) and 0 <= v <= 1,
        "a number in [0, 1]",
        "share of each minibatch that is drawn from the `demonstrations`; 0: none; 1: training is "
        "offline, without collection",
    )
    keep_interventions: bool = flag(
        False,
        "env steps in which a person has taken over are demonstrations, too: besides entering the "
        "replay buffer, they are kept for good and drawn within `demonstration_share`",
    )
    matmul_precision: MatmulPrecision = one_of(
        get_args(MatmulPrecision),
        "auto",
        "arithmetic of the matrix products of train steps: int16 needs the compiled ops and AVX2 "
        "with FMA, and is faster with AVX-512 VNNI; bfloat16 needs a CPU that has its "
        "instructions; auto is int16 where possible, else float32; variables and policies are "
        "always float32",
    )
    n_step_returns: int = count(
        1,
        "env steps whose rewards a TD target sums before it bootstraps, fewer at the end of an "
        "episode; a replay buffer of vectors takes (8 + this) / 9 of the memory; with an "
        "`agent_ctor` of your own, set `discount` to your agent's gamma",
    )
    recurrent: bool = flag(False, "train recurrent networks on sequences")
    recurrent_sequence_length: int = count(
        20,
        "env steps per sequence if `recurrent`; a sequence begins at each env step, the last ones "
        "padded after the end of the episode",
        at_least=2,
    )
    segment_len: int | None = declare(
        None,
        lambda v: v is None or is_count(v, 2),
        f"None or an integer >= 2 and <= {MOST_COUNT}",
        "env steps per segment, if episodes are cut into consecutive segments instead of "
        "sequences, the last one padded; the horizon: whole episodes; None: sequences",
    )
    burn_in_len: int = count(
        0,
        "env steps at the beginning of each sequence or segment that only warm up the recurrent "
        "state and enter no loss, unless the episode begins there; segments then overlap by as "
        "many",
        at_least=0,
    )
    stored_state: bool = flag(
        False,
        "store the policy's recurrent state with each env step, so that sequences begin with it "
        "instead of zeros: that of the shared summarizer, otherwise the actor's; takes 4 bytes per "
        "unit, 8 with an LSTM",
    )
    envs_per_worker: int = count(
        1,
        "environments that each worker steps side by side, with one call of the policy for all of "
        "them: for simulators whose step takes less time than that call",
    )
    action_repeat: int = count(
        1,
        "simulator steps for which an action is repeated; they are one env step, whose reward is "
        "their sum, and end with the episode",
    )
    time_aware: bool = flag(
        False,
        "observations get the share of the horizon that is left, from 1 to 0: a last entry of a "
        "vector, `time_left` in a dict; the last step of the horizon has discount 0",
    )
    frame_stack: int = count(
        1,
        "newest frames of the episode that are stacked along the channels of an image observation, "
        "the first frame repeated before the start; the replay buffer stores each frame once",
    )
    image_layouts: Mapping[str, str] | None = declare(
        None,
        is_image_layouts,
        IMAGE_LAYOUTS_ALLOWED,
        "axes of arrays of the observation whose shape does not tell whether they are images, such "
        'as {"camera": "CHW"}; the name of an array that is not in a dict is "observation"',
    )
    her_copies: int = count(
        0,
        "hindsight experience replay, for observations with `achieved_goal` and `desired_goal`: "
        "copies of each transition in the replay buffer, each with a goal that the episode has "
        "achieved; 4 is usual",
        at_least=0,
    )
    her_strategy: HerStrategy = one_of(
        get_args(HerStrategy),
        "future",
        "the goals of `her_copies`: achieved after the transition at a step drawn at random, at "
        "the final step of the episode, or at any step of the episode",
    )
    exploration_noise_beta: float = number_between(
        0,
        2,
        0.0,
        "exponent of the power spectrum 1/f^beta of the exploration noise: 0 is white noise, 1 is "
        "pink noise, which pushes in one direction for a while and explores farther",
    )


def check_training_settings(settings: TrainingSettings, horizon: int, where: str) -> None:
    """Raises ConfigError for settings that are each allowed but do not fit together."""
    if settings.n_buffer_init_episodes > settings.n_episodes_in_buffer:
        raise ConfigError(
            f"{where}: n_buffer_init_episodes ({settings.n_buffer_init_episodes}) exceeds "
            f"n_episodes_in_buffer ({settings.n_episodes_in_buffer}): the replay buffer could "
            "never hold the episodes that training waits for."
        )
    name = "segment_len" if settings.segment_len else "recurrent_sequence_length"
    length = getattr(settings, name)
    if settings.recurrent and length > horizon:
        raise ConfigError(
            f"{where}: {name} ({length}) exceeds the horizon ({horizon}): no episode would hold "
            f"one {'segment' if settings.segment_len else 'sequence'}."
        )
    of_sequences = {"segment_len": None, "burn_in_len": 0, "stored_state": False}
    for setting, unused in of_sequences.items():
        value = getattr(settings, setting)
        if value and not settings.recurrent:
            raise ConfigError(
                f"{where}: {setting} is {value} and recurrent is False; expected {unused}."
            )
    if settings.burn_in_len >= length:
        raise ConfigError(
            f"{where}: burn_in_len is {settings.burn_in_len}; expected less than {name} "
            f"({length}), because the burn-in enters no loss."
        )
    check_minibatches(settings, where)
    _check_her_copies(settings, where)
    _check_video_period(settings, where)
    _check_stop_when(settings, where)


def _check_her_copies(settings: TrainingSettings, where: str) -> None:
    alone = {"recurrent": False, "n_step_returns": 1, "frame_stack": 1, "action_repeat": 1}
    for name, allowed in alone.items():
        if settings.her_copies and (value := getattr(settings, name)) != allowed:
            raise ConfigError(
                f"{where}: her_copies is {settings.her_copies} and {name} is {value}; expected "
                f"{allowed}, because each copy is a single env step with a reward of its own."
            )


def _check_video_period(settings: TrainingSettings, where: str) -> None:
    video_period, eval_period = settings.video_period_itrs, settings.eval_period_itrs
    if not video_period:
        return
    for name in ("eval_period_itrs", "n_eval_episodes"):
        if not getattr(settings, name):
            raise ConfigError(
                f"{where}: video_period_itrs is {video_period}, but {name} is 0: videos show "
                f"episodes of evaluations. Set {name}, or video_period_itrs = 0."
            )
    if video_period % eval_period:
        below = video_period // eval_period * eval_period
        nearest = " or ".join(str(n) for n in (below, below + eval_period) if n)
        raise ConfigError(
            f"{where}: video_period_itrs ({video_period}) is not a multiple of eval_period_itrs "
            f"({eval_period}): videos show episodes of evaluations. Nearest is {nearest}."
        )


def _check_stop_when(settings: TrainingSettings, where: str) -> None:
    conditions = parse_stop_when(settings.stop_when)
    shown = f"{where}: stop_when is {settings.stop_when!r}"
    if problem := unknown_quantity(conditions, settings.log_info):
        raise ConfigError(f"{shown}, but {problem}")
    for name in ("eval_period_itrs", "n_eval_episodes"):
        if not getattr(settings, name) and any(c.quantity != TIME for c in conditions):
            raise ConfigError(
                f"{shown}, but {name} is 0: without evaluations, only time can end training."
            )
