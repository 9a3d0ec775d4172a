# shellcheck shell=bash disable=SC2034
# sac train zoo/ant_bullet.sh --seed 1 2 3
: "${SAC_EXP_NAME:=ant_bullet}"
: "${SAC_PARAMS:=zoo/pybullet_params.py}"
: "${SAC_CONFIG:=zoo/ant_bullet.json}"
