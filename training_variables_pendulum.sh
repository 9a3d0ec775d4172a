# shellcheck shell=bash disable=SC2034
# Variables of the Pendulum example; training_variables.sh explains each. All CPU numbers are auto.
: "${SAC_EXP_NAME:=pendulum}"
: "${SAC_PARAMS:=tfagents_system/pendulum_params.py}"
: "${SAC_CONFIG:=config/pendulum.json}"
