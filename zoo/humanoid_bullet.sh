# shellcheck shell=bash disable=SC2034
# sac train zoo/humanoid_bullet.sh --seed 1 2 3
: "${SAC_EXP_NAME:=humanoid_bullet}"
: "${SAC_PARAMS:=zoo/pybullet_params.py}"
: "${SAC_CONFIG:=zoo/humanoid_bullet.json}"
