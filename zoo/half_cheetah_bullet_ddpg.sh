# shellcheck shell=bash disable=SC2034
# sac train zoo/half_cheetah_bullet_ddpg.sh --seed 1 2
: "${SAC_EXP_NAME:=half_cheetah_bullet_ddpg}"
: "${SAC_PARAMS:=zoo/pybullet_params.py}"
: "${SAC_CONFIG:=zoo/half_cheetah_bullet_ddpg.json}"
: "${SAC_GIN_BINDINGS:=TrainParams.algorithm = 'ddpg'
TrainParams.actor_learning_rate = 1e-3
TrainParams.critic_learning_rate = 1e-3}"
