# shellcheck shell=bash disable=SC2034
# sac train zoo/bit_flip.sh --seed 1 2 3
: "${SAC_EXP_NAME:=bit_flip}"
: "${SAC_PARAMS:=zoo/bit_flip_params.py}"
: "${SAC_CONFIG:=zoo/bit_flip.json}"
