# needs: zcat
# packages: libgpg-error-dev 1.46
echo ==OUTPUT==
zcat /usr/share/doc/libgpg-error-dev/errorref.txt.gz 2>/dev/null | sed -n 1,420p
