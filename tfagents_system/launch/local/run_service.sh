#!/bin/sh
# Becomes the program of a service. The `run` of each service folder is a link to this file, because
# supervise executes ./run, which disks for data may not allow: program.sh is only read.
# shellcheck source=/dev/null
. "${0%/*}/program.sh"
