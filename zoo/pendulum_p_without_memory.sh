# shellcheck shell=bash disable=SC2034
# sac train zoo/pendulum_p_without_memory.sh --seed 1 2 3
: "${SAC_EXP_NAME:=pendulum_p_without_memory}"
: "${SAC_PARAMS:=zoo/partial_params.py}"
: "${SAC_CONFIG:=zoo/pendulum_p_without_memory.json}"
