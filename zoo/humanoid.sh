# shellcheck shell=bash disable=SC2034
# sac train zoo/humanoid.sh --seed 1 2 3
: "${SAC_EXP_NAME:=humanoid}"
: "${SAC_PARAMS:=zoo/xqc_params.py}"
: "${SAC_CONFIG:=zoo/humanoid.json}"
