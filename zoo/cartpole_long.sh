# shellcheck shell=bash disable=SC2034
# sac train zoo/cartpole_long.sh --seed 1 2 3
: "${SAC_EXP_NAME:=cartpole_long}"
: "${SAC_PARAMS:=zoo/partial_params.py}"
: "${SAC_CONFIG:=zoo/cartpole_long.json}"
