# shellcheck shell=bash disable=SC2034
# sac train zoo/cheetah_run.sh --seed 1 2 3
: "${SAC_EXP_NAME:=cheetah_run}"
: "${SAC_PARAMS:=zoo/xqc_params.py}"
: "${SAC_CONFIG:=zoo/cheetah_run.json}"
: "${SAC_GIN_BINDINGS:=TrainParams.critic_learning_rate = 3e-4; TrainParams.discount = 0.99; \
TrainParams.action_repeat = 2; TrainParams.n_train_episodes_per_iter = 2}"
