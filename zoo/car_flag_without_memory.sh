# shellcheck shell=bash disable=SC2034
# sac train zoo/car_flag_without_memory.sh --seed 1 2 3
: "${SAC_EXP_NAME:=car_flag_without_memory}"
: "${SAC_PARAMS:=zoo/partial_params.py}"
: "${SAC_CONFIG:=zoo/car_flag_without_memory.json}"
: "${SAC_GIN_BINDINGS:=TrainParams.n_episodes_in_buffer = 1000
TrainParams.n_buffer_init_episodes = 30
TrainParams.exploration_noise_beta = 1.0
TrainParams.learning_rate_schedule = 'linear'
TrainParams.eval_period_itrs = 20
TrainParams.num_iter = 300}"
