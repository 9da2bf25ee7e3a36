# needs: ctags
# packages: universal-ctags 5.9
set -u
cp -r /usr/share/perl/5.36/TAP /usr/share/perl/5.36/Test .
echo ==OUTPUT==
ctags -x --sort=yes -R --languages=Perl TAP Test 2>&1
