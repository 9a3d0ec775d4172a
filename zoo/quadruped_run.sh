# shellcheck shell=bash disable=SC2034
# sac train zoo/quadruped_run.sh --seed 1 2 3
: "${SAC_EXP_NAME:=quadruped_run}"
: "${SAC_PARAMS:=zoo/xqc_params.py}"
: "${SAC_CONFIG:=zoo/quadruped_run.json}"
: "${SAC_GIN_BINDINGS:=TrainParams.critic_learning_rate = 3e-4}"
