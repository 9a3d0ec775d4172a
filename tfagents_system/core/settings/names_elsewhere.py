"""Names that settings have in other libraries, or that users expect, and what they are here."""

from collections.abc import Mapping

_STEP_SIZES = "actor_learning_rate, critic_learning_rate and alpha_learning_rate"
_LAYERS = "actor_fc_layer_params and critic_joint_fc_layer_params"
_ALPHA = "sac_log_alpha, the logarithm"
_CAPACITY = "n_episodes_in_buffer, in episodes"
_FIRST_FILL = "n_buffer_init_episodes, in episodes"
_LENGTH = "num_iter, in iterations"
_UPDATES = "num_steps_per_iter, for n_train_episodes_per_iter episodes"
_WORKERS = "the variable SAC_NUM_COLLECT_WORKERS"
_ENVS = f"envs_per_worker, or {_WORKERS}"
_HORIZON = "horizon in the experiment's JSON config, the file that SAC_CONFIG names"
_ENV = "--env of sac train, or the method env_ctor in the params file"
_ENV_KWARGS = "collect_env_args_kwargs and eval_env_args_kwargs, methods in the params file"
_NAME = "--name, or the variable SAC_EXP_NAME"

# Stable-Baselines3, RLlib, Acme, Spinning Up and ML-Agents: the pages docs/from_*.md have these.
SETTINGS_ELSEWHERE: Mapping[str, str] = {
    "gamma": "discount", "tau": "target_update_tau", "polyak": "1 - target_update_tau",
    "lr": _STEP_SIZES, "learning_rate": _STEP_SIZES,
    "actor_lr": "actor_learning_rate", "pi_lr": "actor_learning_rate",
    "critic_lr": "critic_learning_rate", "q_lr": "critic_learning_rate",
    "alpha_lr": "alpha_learning_rate",
    "alpha": _ALPHA, "ent_coef": _ALPHA, "init_entcoef": _ALPHA, "initial_alpha": _ALPHA,
    "entropy_coefficient": _ALPHA,
    "batch_size": "train_batch_size", "train_batch_size_per_learner": "train_batch_size",
    "buffer_size": _CAPACITY, "replay_size": _CAPACITY, "max_replay_size": _CAPACITY,
    "learning_starts": _FIRST_FILL, "start_steps": _FIRST_FILL, "update_after": _FIRST_FILL,
    "buffer_init_steps": _FIRST_FILL, "min_replay_size": _FIRST_FILL,
    "num_steps_sampled_before_learning_starts": _FIRST_FILL,
    "total_timesteps": _LENGTH, "max_steps": _LENGTH, "epochs": _LENGTH,
    "steps_per_epoch": _LENGTH,
    "train_freq": _UPDATES, "gradient_steps": _UPDATES, "utd_ratio": _UPDATES,
    "steps_per_update": _UPDATES, "num_update": _UPDATES, "train_interval": _UPDATES,
    "update_every": _UPDATES, "training_intensity": _UPDATES, "samples_per_insert": _UPDATES,
    "net_arch": _LAYERS, "hidden_sizes": _LAYERS, "hidden_units": _LAYERS, "num_layers": _LAYERS,
    "n_step": "n_step_returns", "n_steps": "n_step_returns",
    "prefetch_size": "prefetch_batches",
    "act_noise": "exploration_noise_std", "action_noise": "exploration_noise_std",
    "target_noise": "target_noise_std", "target_policy_noise": "target_noise_std",
    "noise_clip": "target_noise_clip",
    "n_quantiles": "tqc_quantiles", "n_critics": "critic_ensemble, or tqc_critics",
    "top_quantiles_to_drop_per_net": "tqc_dropped_quantiles",
    "n_sampled_goal": "her_copies", "goal_selection_strategy": "her_strategy",
    "use_lstm": "recurrent", "use_recurrent": "recurrent",
    "sequence_length": "recurrent_sequence_length", "max_seq_len": "recurrent_sequence_length",
    "burn_in": "burn_in_len", "burn_in_length": "burn_in_len", "recurrent_type": "rnn_type",
    "normalize": "normalize_observations", "vis_encode_type": "image_encoder",
    "num_test_episodes": "n_eval_episodes", "evaluation_duration": "n_eval_episodes",
    "evaluation_interval": "eval_period_itrs", "eval_freq": "eval_period_itrs",
    "summary_freq": "log_period_itrs", "checkpoint_interval": "checkpoint_period_itrs",
    "info_keywords": "log_info", "algo": "algorithm",
    "max_episode_steps": _HORIZON, "max_ep_len": _HORIZON, "horizon": _HORIZON,
    "time_limit": _HORIZON,
    "n_envs": _ENVS, "num_envs": _ENVS, "num_workers": _WORKERS, "n_workers": _WORKERS,
    "num_env_runners": _WORKERS, "seed": "--seed, or the variable SAC_SEED",
    "evaluation_num_env_runners": "the variable SAC_EVAL_WORKERS",
}  # fmt: skip
# Names that a TrainParams may well have for its own use.
NAMES_ELSEWHERE: Mapping[str, str] = {
    **SETTINGS_ELSEWHERE,
    "workers": _WORKERS, "env": _ENV, "env_id": _ENV, "env_name": _ENV, "env_fn": _ENV,
    "env_kwargs": _ENV_KWARGS, "name": _NAME, "exp_name": _NAME, "run_id": _NAME,
    "extend": "--extend of sac train",
    "curriculum": "curriculum in the experiment's JSON config, the file that SAC_CONFIG names",
}  # fmt: skip
