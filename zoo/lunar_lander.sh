# shellcheck shell=bash disable=SC2034
# sac train zoo/lunar_lander.sh --seed 1 2 3
: "${SAC_EXP_NAME:=lunar_lander}"
: "${SAC_PARAMS:=zoo/box2d_params.py}"
: "${SAC_CONFIG:=zoo/lunar_lander.json}"
