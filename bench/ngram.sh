#!/bin/sh
# Decoding with an n-gram table on the drive and in RAM; see README.md, or ngram.sh --help.
exec python3 -B "$(dirname "$0")/ngram.py" "$@"
