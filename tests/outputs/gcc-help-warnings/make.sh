# needs: gcc
# packages: gcc 12
set -u
echo ==OUTPUT==
gcc --help=warnings 2>&1
