#!/bin/sh
# Strata beside another program on a GPU that has no room for all experts; see README.md, or hybrid.sh --help.
exec python3 -B "$(dirname "$0")/hybrid.py" "$@"
