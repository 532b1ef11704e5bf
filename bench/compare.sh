#!/bin/sh
# Strata against other programs on one model; see README.md, or compare.sh --help.
exec python3 -B "$(dirname "$0")/compare.py" "$@"
