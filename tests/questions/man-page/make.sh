# needs: apt-get dpkg man
# packages: unbound (unpacked here; BSD licence)
apt-get download -q unbound >/dev/null 2>&1; dpkg -x unbound_*.deb p
echo ==OUTPUT==
MANWIDTH=90 LC_ALL=C.UTF-8 man -l p/usr/share/man/man5/unbound.conf.5.gz | col -bx
