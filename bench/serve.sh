#!/bin/sh
# strata serve against llama-server on one model; see README.md, or serve.sh --help.
exec python3 -B "$(dirname "$0")/serve.py" "$@"
