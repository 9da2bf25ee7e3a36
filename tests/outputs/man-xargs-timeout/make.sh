# needs: man col
# packages: man-db bsdextrautils tar
echo ==OUTPUT==
MANWIDTH=100 man -P cat xargs 2>/dev/null | col -b; MANWIDTH=100 man -P cat timeout 2>/dev/null | col -b
