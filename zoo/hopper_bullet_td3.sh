# shellcheck shell=bash disable=SC2034
# sac train zoo/hopper_bullet_td3.sh --seed 1 2
: "${SAC_EXP_NAME:=hopper_bullet_td3}"
: "${SAC_PARAMS:=zoo/pybullet_params.py}"
: "${SAC_CONFIG:=zoo/hopper_bullet_td3.json}"
: "${SAC_GIN_BINDINGS:=TrainParams.algorithm = 'td3'
TrainParams.actor_learning_rate = 1e-3
TrainParams.critic_learning_rate = 1e-3}"
