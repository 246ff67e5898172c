#!/bin/sh
set -eu
. /opt/slatekeeper/kernels.sh
exec "$@"
