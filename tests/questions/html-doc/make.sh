# needs: apt-get dpkg
# packages: sqlite3-doc (unpacked here; public domain)
apt-get download -q sqlite3-doc >/dev/null 2>&1; dpkg -x sqlite3-doc_*.deb p
echo ==OUTPUT==
cat p/usr/share/doc/sqlite3/pragma.html
