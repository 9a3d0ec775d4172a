# shellcheck shell=bash disable=SC2034
# sac train zoo/water_maze_simple.sh --seed 1 2 3
# A sequence is a whole episode. Rewards are rare, so the temperature begins low. Many episodes are
# collected for each train step: a policy that searches must have seen the platform everywhere.
: "${SAC_EXP_NAME:=water_maze_simple}"
: "${SAC_PARAMS:=zoo/partial_params.py}"
: "${SAC_CONFIG:=zoo/water_maze_simple.json}"
: "${SAC_GIN_BINDINGS:=TrainParams.segment_len = 200
TrainParams.train_batch_size = 10
TrainParams.n_episodes_in_buffer = 2000
TrainParams.n_buffer_init_episodes = 30
TrainParams.exploration_noise_beta = 1.0
TrainParams.share_summarizer = True
TrainParams.sac_log_alpha = -5.0
TrainParams.learning_rate_schedule = 'linear'
TrainParams.eval_period_itrs = 20
TrainParams.n_train_episodes_per_iter = 4
TrainParams.num_iter = 400}"
