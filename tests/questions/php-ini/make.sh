# needs: apt-get dpkg
# packages: php8.2-common (unpacked here; PHP licence)
apt-get download -q php8.2-common >/dev/null 2>&1; dpkg -x php8.2-common_*.deb p
echo ==OUTPUT==
cat p/usr/lib/php/8.2/php.ini-development
