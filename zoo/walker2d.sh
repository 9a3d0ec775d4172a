# shellcheck shell=bash disable=SC2034
# sac train zoo/walker2d.sh --seed 1 2 3
: "${SAC_EXP_NAME:=walker2d}"
: "${SAC_PARAMS:=zoo/xqc_params.py}"
: "${SAC_CONFIG:=zoo/walker2d.json}"
