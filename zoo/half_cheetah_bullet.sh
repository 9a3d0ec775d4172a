# shellcheck shell=bash disable=SC2034
# sac train zoo/half_cheetah_bullet.sh --seed 1 2 3
: "${SAC_EXP_NAME:=half_cheetah_bullet}"
: "${SAC_PARAMS:=zoo/pybullet_params.py}"
: "${SAC_CONFIG:=zoo/half_cheetah_bullet.json}"
