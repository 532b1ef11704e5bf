#!/bin/sh
# Time and memory of runs of one token, with warm and cold files; see README.md, or startup.sh --help.
exec python3 -B "$(dirname "$0")/startup.py" "$@"
