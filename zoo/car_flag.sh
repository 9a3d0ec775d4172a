# shellcheck shell=bash disable=SC2034
# sac train zoo/car_flag.sh --seed 1 2 3
# A sequence is a whole episode: what must be remembered was seen long ago.
: "${SAC_EXP_NAME:=car_flag}"
: "${SAC_PARAMS:=zoo/partial_params.py}"
: "${SAC_CONFIG:=zoo/car_flag.json}"
: "${SAC_GIN_BINDINGS:=TrainParams.segment_len = 160
TrainParams.train_batch_size = 10
TrainParams.n_episodes_in_buffer = 1000
TrainParams.n_buffer_init_episodes = 30
TrainParams.exploration_noise_beta = 1.0
TrainParams.share_summarizer = True
TrainParams.gradient_clipping = 1.0
TrainParams.learning_rate_schedule = 'linear'
TrainParams.eval_period_itrs = 20
TrainParams.num_iter = 300}"
