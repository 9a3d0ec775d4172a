# shellcheck shell=bash disable=SC2034
# sac train zoo/water_maze_simple_mdp.sh --seed 1 2 3
: "${SAC_EXP_NAME:=water_maze_simple_mdp}"
: "${SAC_PARAMS:=zoo/partial_params.py}"
: "${SAC_CONFIG:=zoo/water_maze_simple_mdp.json}"
: "${SAC_GIN_BINDINGS:=TrainParams.n_episodes_in_buffer = 2000
TrainParams.n_buffer_init_episodes = 30
TrainParams.exploration_noise_beta = 1.0
TrainParams.learning_rate_schedule = 'linear'
TrainParams.eval_period_itrs = 20
TrainParams.sac_log_alpha = -5.0
TrainParams.n_train_episodes_per_iter = 4
TrainParams.num_iter = 400}"
