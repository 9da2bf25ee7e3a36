# needs: cat
# packages: libpython3.11-stdlib (PSF licence)
echo ==OUTPUT==
cat /usr/lib/python3.11/tarfile.py
