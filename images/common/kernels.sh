# Where compiled kernels are, and for which processors. Sourced when they are compiled and whenever a container starts.
#
# Numba compiles for the processor at hand and keeps the result under its name, so what was compiled where the image was
# built would count for nothing on another machine. Hence they are compiled for what all servers of the last ten years
# have. On an older one nothing is said, and numba compiles for it, once.
if [ "$(uname -m)" = x86_64 ] && grep -qw avx2 /proc/cpuinfo && grep -qw bmi2 /proc/cpuinfo && grep -qw pclmulqdq /proc/cpuinfo; then
    export NUMBA_CPU_NAME=x86-64-v3 NUMBA_CPU_FEATURES=+pclmul
elif [ "$(uname -m)" != x86_64 ]; then
    export NUMBA_CPU_NAME=generic
fi

# Numba wants to write where they are, and the root file system is read-only: give it a copy in /tmp.
export NUMBA_CACHE_DIR="${NUMBA_CACHE_DIR:-/tmp/kernels}"
if [ ! -d "$NUMBA_CACHE_DIR" ]; then
    cp -R /opt/slatekeeper/kernels "$NUMBA_CACHE_DIR.$$" 2>/dev/null && mv "$NUMBA_CACHE_DIR.$$" "$NUMBA_CACHE_DIR" || {
        echo "cannot write to ${NUMBA_CACHE_DIR%/*}: mount an emptyDir there" >&2
        exit 1
    }
fi
