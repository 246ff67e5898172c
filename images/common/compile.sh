#!/bin/sh
# Compile a folder of Python packages once, here: a service starts twice as fast with it, and on a read-only root nothing that
# is compiled later could be kept. Of others' packages the compiled form is all that stays: 40 MB of source are never read.
# Numba reads its own.
set -eu
python=/opt/venv/bin/python
source_needed='^\./(numba|llvmlite|pyspark)/'
$python -m compileall -q -b --invalidation-mode unchecked-hash -x "$source_needed" .
find . -name '*.py' | grep -Ev "$source_needed" | xargs -d '\n' rm
for package in numba llvmlite pyspark; do
    if [ -d $package ]; then $python -m compileall -q --invalidation-mode unchecked-hash $package; fi
done
