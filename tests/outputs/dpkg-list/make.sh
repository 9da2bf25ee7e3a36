# needs: dpkg-query
# packages: dpkg
echo ==OUTPUT==
COLUMNS=110 dpkg -l 2>&1 | grep -E '^[^i]|^ii  (gpg|lib[egt])' | grep -vE '^(rc|un)' | head -130
exit 0
