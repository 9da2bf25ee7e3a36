# needs: find du setpriv
# packages: findutils coreutils
chmod 755 .; mkdir -p srv; cd srv
for t in alpha beta gamma delta error-archive zeta; do for y in 2021 2022 2023 2024 2025; do mkdir -p $t/$y; for i in $(seq 1 22); do head -c $((i*700)) /dev/zero > $t/$y/report-$i.csv; done; head -c 50 /dev/zero > $t/$y/failed-import.log; done; done
chmod 700 beta/2023 gamma/2025; mkdir -p zeta/keys; chmod 711 zeta/keys; chmod 700 zeta/keys; cd ..
cat > usage.sh <<'S'
echo "== files over 4 kB"; find srv -type f -size +4k -printf '%s %p\n'; a=$?
echo "== logs of failed imports"; find srv -name 'failed-*.log' -printf '%TY-%Tm %p\n'; b=$?
echo "== usage"; du -b --max-depth=2 srv; c=$?
echo "== newest"; find srv -type f -newermt 2001-01-01 -name 'report-2?.csv' 2>/dev/null
echo "status: find $a, find $b, du $c"
exit $c
S
echo ==OUTPUT==
setpriv --reuid=65534 --regid=65534 --clear-groups bash usage.sh 2>&1
