# shellcheck shell=bash disable=SC2034
# sac train zoo/point_maze.sh --seed 1 2 3
: "${SAC_EXP_NAME:=point_maze}"
: "${SAC_PARAMS:=zoo/demonstrations_params.py}"
: "${SAC_CONFIG:=zoo/point_maze.json}"
