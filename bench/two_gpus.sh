#!/bin/sh
# Two GPUs of one host: a split that lends, a prompt that computing binds, two engines on one arena; see README.md, or
# two_gpus.sh --help.
exec python3 -B "$(dirname "$0")/two_gpus.py" "$@"
