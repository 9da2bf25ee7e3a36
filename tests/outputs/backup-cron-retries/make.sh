# needs: tar gzip sqlite3 setpriv
# packages: tar sqlite3
here=$PWD; chmod 755 .
mkdir -p data/{orders,mail,www,db} vault tmp; for d in orders mail www; do for i in $(seq -w 1 120); do echo "$d $i" > data/$d/$i.txt; done; done
mkdir data/www/private; echo k > data/www/private/tls.key; chmod 600 data/www/private/tls.key
sqlite3 data/db/shop.db "create table o(i integer primary key, t text); with recursive c(i) as (select 1 union all select i+1 from c where i<3000) insert into o select i, 'order '||i from c; create index ot on o(t);"
cp data/db/shop.db data/db/crm.db; printf 'XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX' | dd of=data/db/crm.db bs=1 seek=20500 conv=notrunc 2>/dev/null
dd if=/dev/urandom of=data/orders/export.bin bs=64k count=40 2>/dev/null
cat > backup.sh <<'S'
#!/bin/bash
# run by cron every night
rc=0; say() { echo "$(date '+%Y-%m-%d %H:%M:%S') backup[$1]: ${*:2}"; }
try() { local what=$1 n; shift; for n in 1 2 3; do "$@" && return 0; say "$what" "attempt $n failed with $?, retrying in 0 s"; done; say "$what" "giving up"; return 1; }
flaky() { local f=tmp/$1.n c; c=$(cat $f 2>/dev/null || echo 0); echo $((c+1)) > $f; [ $c -ge $2 ] || { echo "mount: //nas/backup: connection timed out" >&2; return 32; }; }
say main "start, keep 7 generations, on_error=continue"
say mount "mounting the share"; try mount flaky nas 2 && say mount "ok"
for d in orders mail www; do
  say $d "archiving"
  tar -cvf vault/$d.tar -C data $d 2>&1 || { say $d "tar ended with $?"; rc=1; }
  say $d "$(stat -c %s vault/$d.tar) bytes, verify: $(tar -tf vault/$d.tar | wc -l) members, 0 errors"
done
for b in shop crm; do
  say $b "check"; sqlite3 data/db/$b.db 'pragma integrity_check(20)' 2>&1
  say $b "dump"; sqlite3 data/db/$b.db .dump > vault/$b.sql 2> tmp/$b.err && tail -1 vault/$b.sql || true
  cat tmp/$b.err
  say $b "$(wc -l < vault/$b.sql) lines"
done
say rotate "removing old generations"
for i in $(seq 8 40); do rm -f vault/gen-$i.tar && say rotate "gen-$i.tar: not there, nothing to do"; done
say main "end, status $rc"
exit $rc
S
chown -R nobody vault tmp
echo ==OUTPUT==
setpriv --reuid=65534 --regid=65534 --clear-groups bash backup.sh 2>&1
