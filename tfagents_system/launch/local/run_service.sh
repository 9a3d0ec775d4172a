#!/bin/sh
# Becomes the program of a service. The `run` of each service folder is a link to this file, because
# supervise executes ./run, and data disks may forbid execution; program.sh is only read.
# shellcheck source=/dev/null
. "${0%/*}/program.sh"
