# shellcheck shell=bash disable=SC2034
# sac train zoo/key_door.sh --seed 1 2 3 4 5
: "${SAC_EXP_NAME:=key_door}"
: "${SAC_PARAMS:=zoo/key_door_params.py}"
: "${SAC_CONFIG:=zoo/key_door.json}"
