# shellcheck shell=bash disable=SC2034
# sac train zoo/hopper.sh --seed 1 2 3
: "${SAC_EXP_NAME:=hopper}"
: "${SAC_PARAMS:=zoo/xqc_params.py}"
: "${SAC_CONFIG:=zoo/hopper.json}"
