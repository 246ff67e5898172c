#!/bin/sh
# Numba wants to write where its compiled kernels are, and the root file system is read-only: give it a copy in /tmp.
set -eu
export NUMBA_CACHE_DIR="${NUMBA_CACHE_DIR:-/tmp/kernels}"
if [ ! -d "$NUMBA_CACHE_DIR" ]; then
    cp -R "$SLATE_KERNELS" "$NUMBA_CACHE_DIR.$$" 2>/dev/null && mv "$NUMBA_CACHE_DIR.$$" "$NUMBA_CACHE_DIR" || {
        echo "cannot write to ${NUMBA_CACHE_DIR%/*}: mount an emptyDir there" >&2
        exit 1
    }
fi
exec "$@"
