# needs: dpkg
# packages:
echo ==OUTPUT==
COLUMNS=150 dpkg -l
