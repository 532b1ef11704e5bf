#!/bin/sh
# Decoding from the drive, beside the drive's own speed; see README.md, or drive.sh --help.
exec python3 -B "$(dirname "$0")/drive.py" "$@"
