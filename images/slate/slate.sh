#!/bin/sh
# The command, also for those who come in by `kubectl exec` and not by the entrypoint.
set -eu
. /opt/slatekeeper/kernels.sh
exec /opt/venv/bin/slate "$@"
