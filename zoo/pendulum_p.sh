# shellcheck shell=bash disable=SC2034
# sac train zoo/pendulum_p.sh --seed 1 2 3
: "${SAC_EXP_NAME:=pendulum_p}"
: "${SAC_PARAMS:=zoo/partial_params.py}"
: "${SAC_CONFIG:=zoo/pendulum_p.json}"
