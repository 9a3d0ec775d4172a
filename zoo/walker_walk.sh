# shellcheck shell=bash disable=SC2034
# sac train zoo/walker_walk.sh --seed 1 2 3
: "${SAC_EXP_NAME:=walker_walk}"
: "${SAC_PARAMS:=zoo/xqc_params.py}"
: "${SAC_CONFIG:=zoo/walker_walk.json}"
: "${SAC_GIN_BINDINGS:=TrainParams.critic_learning_rate = 3e-4}"
