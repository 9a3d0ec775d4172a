# shellcheck shell=bash disable=SC2034
# sac train zoo/acrobot.sh --seed 1 2 3
: "${SAC_EXP_NAME:=acrobot}"
: "${SAC_PARAMS:=zoo/classic_params.py}"
: "${SAC_CONFIG:=zoo/acrobot.json}"
