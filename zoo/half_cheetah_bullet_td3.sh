# shellcheck shell=bash disable=SC2034
# sac train zoo/half_cheetah_bullet_td3.sh --seed 1 2
# A train step for every second env step; with one for every fourth, seeds 1 and 2 return 2,652 and 2,574.
: "${SAC_EXP_NAME:=half_cheetah_bullet_td3}"
: "${SAC_PARAMS:=zoo/pybullet_params.py}"
: "${SAC_CONFIG:=zoo/half_cheetah_bullet_td3.json}"
: "${SAC_GIN_BINDINGS:=TrainParams.algorithm = 'td3'
TrainParams.num_steps_per_iter = 500
TrainParams.actor_learning_rate = 1e-3
TrainParams.critic_learning_rate = 1e-3}"
