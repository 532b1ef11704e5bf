#!/bin/sh
# Decoding with experts in every place beside a GPU; see README.md, or places.sh --help.
exec python3 -B "$(dirname "$0")/places.py" "$@"
