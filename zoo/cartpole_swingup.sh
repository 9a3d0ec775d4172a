# shellcheck shell=bash disable=SC2034
# sac train zoo/cartpole_swingup.sh --seed 1 2 3
: "${SAC_EXP_NAME:=cartpole_swingup}"
: "${SAC_PARAMS:=zoo/dm_control_params.py}"
: "${SAC_CONFIG:=zoo/cartpole_swingup.json}"
