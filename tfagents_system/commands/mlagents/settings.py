"""Converts the settings of a behavior into hyperparameters of our own. Pure."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from tfagents_system.commands.mlagents.document import PPO_KEYS, Section
from tfagents_system.commands.mlagents.reading import at_least, flag, number
from tfagents_system.commands.mlagents.signals import convert_signals
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.names import did_you_mean

# ML-Agents' defaults for missing keys, up to 0.16 and since 0.17.
_FLAT_DEFAULTS = {"max_steps": 5e4, "summary_freq": 1000, "checkpoint_interval": 5e4}
_NESTED_DEFAULTS = {"max_steps": 5e5, "summary_freq": 5e4, "checkpoint_interval": 5e5,
                    "steps_per_update": 1}  # fmt: skip
_DEFAULTS = {
    "batch_size": 128, "buffer_size": 50_000, "buffer_init_steps": 0, "init_entcoef": 1.0,
    "tau": 0.005, "learning_rate": 3e-4, "learning_rate_schedule": "constant", "hidden_units": 128,
    "num_layers": 2, "normalize": False, "use_recurrent": False, "sequence_length": 64,
    "keep_checkpoints": 5, "even_checkpoints": False,
}  # fmt: skip
_ENCODERS = {
    "default": "simple", "simple": "simple", "nature_cnn": "nature_cnn", "resnet": "impala",
    "match3": "match3", "fully_connected": "fully_connected",
}  # fmt: skip
_NOTES = {
    "time_horizon": "an episode's steps are stored one by one, and values bootstrap at its end",
    "threaded": "learner and workers are always programs of their own",
    "save_replay_buffer": "checkpoints always have the replay buffer",
    "keep_checkpoints": "all policies are kept; sac prune removes them",
    "reward_signal_steps_per_update": "signals are trained in each train step",
    "init_path": "weights of ML-Agents cannot be read; of an experiment: --initialize_from",
    "framework": "networks are TensorFlow's",
    "output_path": "experiments are in logs/",
    "summary_path": "experiments are in logs/",
    "model_path": "experiments are in logs/",
    "deterministic": "evaluations and exported policies are greedy, collection explores",
    "behavioral_cloning": "set demonstrations and behavioral_cloning: docs/demonstrations.md",
    "pretraining": "set demonstrations and behavioral_cloning: docs/demonstrations.md",
} | dict.fromkeys(PPO_KEYS, "of PPO, without effect in SAC")
_ROUNDED = 6  # digits


@dataclasses.dataclass(frozen=True)
class Setting:
    """The value of a hyperparameter, and the setting that it comes from."""

    value: Any
    origin: str


@dataclasses.dataclass
class Converted:
    """The hyperparameters of a behavior, and notes on settings without a counterpart here."""

    settings: dict[str, Setting] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)

    def set(self, name: str, value: Any, origin: str) -> None:
        """Adds a hyperparameter."""
        self.settings[name] = Setting(value, origin)


def convert(section: Section, horizon: int) -> Converted:
    """Converts a section; numbers of env steps become episodes and iterations of `horizon`.

    Raises:
      ConfigError: If its trainer is not SAC, it has `self_play`, or a value is not allowed.
    """
    _refuse(section)
    given = section.values
    lengths = _NESTED_DEFAULTS if section.is_nested else _FLAT_DEFAULTS
    values = {**_DEFAULTS, **lengths, **given}
    converted = Converted()
    _convert_lengths(values, section.where, horizon, converted)
    _convert_learning(values, section.where, horizon, converted)
    _convert_networks(values, section, converted)
    _convert_signals(section, converted)
    for key, why in _NOTES.items():
        if given.get(key) is not None:
            shown = "" if isinstance(given[key], Mapping) else f" {given[key]}"
            converted.notes.append(f"{key}{shown}: {why}")
    return converted


def _refuse(section: Section) -> None:
    trainer = section.values.get("trainer")
    if trainer != "sac":
        shown = "missing, which is PPO for ML-Agents" if trainer is None else repr(trainer)
        raise ConfigError(f"{section.where}: the trainer is {shown}; expected sac.")
    if section.values.get("self_play"):
        raise ConfigError(f"{section.where} has self_play, which does not exist here.")


def _convert_lengths(
    values: Mapping[str, Any], where: str, horizon: int, converted: Converted
) -> None:
    def steps(key: str) -> float:
        return at_least(0, values[key], f"{where}.{key}")

    def iterations(num_steps: float) -> int:
        return max(1, math.ceil(num_steps / horizon))

    max_steps = steps("max_steps")
    converted.set("num_iter", iterations(max_steps), f"max_steps {max_steps:,.0f}")
    converted.set("n_train_episodes_per_iter", 1, f"an iteration has {horizon:,} env steps")
    capacity, first = steps("buffer_size"), steps("buffer_init_steps")
    converted.set("n_episodes_in_buffer", iterations(capacity), f"buffer_size {capacity:,.0f}")
    converted.set("n_buffer_init_episodes", iterations(first), f"buffer_init_steps {first:,.0f}")
    converted.set("seed_sac_buffer", False, "they are collected with the untrained policy")
    every = steps("summary_freq")
    converted.set("log_period_itrs", max(1, round(every / horizon)), f"summary_freq {every:,.0f}")
    interval, origin = steps("checkpoint_interval"), "checkpoint_interval"
    if flag(values["even_checkpoints"], f"{where}.even_checkpoints"):
        kept = max(1.0, steps("keep_checkpoints"))
        interval, origin = max_steps / kept, "even_checkpoints"
    period = iterations(interval)
    converted.set("checkpoint_period_itrs", period, f"{origin} {interval:,.0f}")
    converted.set("eval_period_itrs", max(1, -(-iterations(max_steps) // 20)), "20 evaluations")


def _convert_learning(
    values: Mapping[str, Any], where: str, horizon: int, converted: Converted
) -> None:
    def value(key: str) -> float:
        return number(values[key], f"{where}.{key}")

    if "steps_per_update" in values:
        ratio = _above_zero(values["steps_per_update"], f"{where}.steps_per_update")
        origin = f"steps_per_update {ratio:g}"
    else:
        interval = _above_zero(values.get("train_interval", 1), f"{where}.train_interval")
        updates = _above_zero(values.get("num_update", 1), f"{where}.num_update")
        ratio = interval / updates
        origin = f"num_update {updates:g} each train_interval {interval:g}"
    converted.set("num_steps_per_iter", max(1, round(horizon / ratio)), origin)
    batch_size = int(at_least(1, values["batch_size"], f"{where}.batch_size"))
    converted.set("train_batch_size", batch_size, f"batch_size {batch_size}")
    rate = value("learning_rate")
    for name in ("actor_learning_rate", "critic_learning_rate", "alpha_learning_rate"):
        converted.set(name, rate, f"learning_rate {rate:g}")
    schedule = values["learning_rate_schedule"]
    if schedule not in ("constant", "linear"):
        hint = did_you_mean(str(schedule), ("constant", "linear"))
        raise ConfigError(f"{where}.learning_rate_schedule is {schedule!r}.{hint}")
    converted.set("learning_rate_schedule", schedule, f"learning_rate_schedule {schedule}")
    converted.set("target_update_tau", value("tau"), f"tau {value('tau'):g}")
    alpha = _above_zero(values["init_entcoef"], f"{where}.init_entcoef")
    converted.set("sac_log_alpha", round(math.log(alpha), _ROUNDED), f"init_entcoef {alpha:g}")


def _convert_networks(values: Mapping[str, Any], section: Section, converted: Converted) -> None:
    where = section.where
    units = int(at_least(1, values["hidden_units"], f"{where}.hidden_units"))
    num_layers = max(1, int(at_least(0, values["num_layers"], f"{where}.num_layers")))
    for name in ("actor_fc_layer_params", "critic_joint_fc_layer_params"):
        converted.set(name, (units,) * num_layers, f"num_layers {num_layers}, hidden_units {units}")
    normalizes = flag(values["normalize"], f"{where}.normalize")
    converted.set("normalize_observations", normalizes, f"normalize {str(normalizes).lower()}")
    if (kind := values.get("vis_encode_type")) is not None:
        if not isinstance(kind, str) or kind not in _ENCODERS:
            hint = did_you_mean(str(kind), _ENCODERS)
            raise ConfigError(f"{where}.vis_encode_type is {kind!r}.{hint}")
        converted.set("image_encoder", _ENCODERS[kind], f"vis_encode_type {kind}")
    if (kind := values.get("goal_conditioning_type")) is not None:
        if kind not in ("hyper", "none"):
            hint = did_you_mean(str(kind), ("hyper", "none"))
            raise ConfigError(f"{where}.goal_conditioning_type is {kind!r}.{hint}")
        converted.set("goal_conditioning_type", kind, f"goal_conditioning_type {kind}")
    if flag(values["use_recurrent"], f"{where}.use_recurrent"):
        _convert_memory(values, section, converted)


def _convert_memory(values: Mapping[str, Any], section: Section, converted: Converted) -> None:
    """Sets sequences and cells; the memory of all networks was one vector before 0.19."""
    where = section.where
    length = int(at_least(2, values["sequence_length"], f"{where}.sequence_length"))
    parts, default = (2, 128) if section.is_newest else (8, 256)
    memory = int(at_least(parts, values.get("memory_size", default), f"{where}.memory_size"))
    converted.set("recurrent", True, "memory")
    converted.set("recurrent_sequence_length", length, f"sequence_length {length}")
    converted.set("rnn_units", memory // parts, f"memory_size {memory}, {parts} parts")
    steps = converted.settings["train_batch_size"].value
    in_sequences = max(1, steps // length)
    converted.set("train_batch_size", in_sequences, f"batch_size {steps}, here in sequences")


def _convert_signals(section: Section, converted: Converted) -> None:
    signals = convert_signals(section, converted.notes)
    if extrinsic := signals.streams.get("extrinsic"):
        gamma = extrinsic["discount"]
        converted.set("discount", gamma, f"reward_signals.extrinsic.gamma {gamma:g}")
    if list(signals.streams) != ["extrinsic"] or extrinsic and extrinsic["strength"] != 1:
        converted.set("reward_signals", signals.streams, "reward_signals")
    if signals.demonstrations:
        paths = ", ".join(signals.demonstrations)
        converted.set("demonstrations", signals.demonstrations, f"demo_path {paths}")
        converted.set("demonstration_share", 0.0, "the critics learn from the agent's steps alone")


def _above_zero(value: Any, where: str) -> float:
    result = number(value, where)
    if result <= 0:
        raise ConfigError(f"{where} is {value}; expected a number > 0.")
    return result
