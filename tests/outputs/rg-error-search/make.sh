# needs: rg
# packages: ripgrep 13.0
set -u
echo ==OUTPUT==
cd /usr/share/perl/5.36 && rg --line-number --no-heading --sort path --color=never '\b(error|fail(ed|ure))\b' CPAN Test TAP 2>&1
