#!/bin/sh
# Take out of a folder of Python packages what no pod uses. Run where they are, before they are copied into an image. The
# tests run all services in what is left, import every module of the engine there, and open a store of each kind.
set -eu

# The tests of packages: 45 MB.
find . -type d -name tests -prune -exec rm -rf {} +
rm -rf sqlalchemy/testing asyncpg/_testbase

# What others compile against, and what type checkers read: 15 MB.
rm -rf pyarrow/include numpy/_core/include numpy/f2py numpy/distutils
find . -type f \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxi' -o -name '*.pxd' -o -name '*.h' -o -name '*.a' \) -delete

# Of Arrow its RPC server, its own client of S3 (ours is another), ORC, and libraries that are there three times, for
# linkers: 70 MB. Parquet stays, with what it stands on: `slate export` writes it.
rm -f pyarrow/*flight* pyarrow/libarrow_s3.* pyarrow/_s3fs.* pyarrow/_orc.* pyarrow/_dataset_orc.* pyarrow/_pyarrow_cpp_tests.*
rm -f pyarrow/libarrow_python*.so pyarrow/libarrow_python*.so.*.*.*

# What AWS' client knows of all services but those that we call: the store, the table of two-phase CAS, and those that hand
# out credentials: 25 MB.
if [ -d botocore/data ]; then
    find botocore/data -mindepth 1 -maxdepth 1 -type d \
        ! -name s3 ! -name dynamodb ! -name sts ! -name sso ! -name sso-oidc ! -name signin -exec rm -rf {} +
fi

# A second backend of zstandard, for Pythons that have no C: 12 MB.
rm -f zstandard/_cffi.*

# Numba's pools of threads for kernels that run in parallel by themselves. Ours do not, and the libraries of these are not here.
rm -f numba/np/ufunc/tbbpool.* numba/np/ufunc/omppool.*

# Symbols for debuggers: 100 MB. What wheels bring along in `*.libs` has been moved about already, and would not survive it.
find . -type f -name '*.so*' ! -path '*.libs/*' -exec strip --strip-unneeded --preserve-dates {} +
