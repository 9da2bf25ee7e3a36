# needs: redis-server redis-cli setpriv
# packages: redis-server
here=$PWD; mkdir -p data sub; chown redis:redis data; chmod 755 "$here"
cat > redis.conf <<CONF
port 0
unixsocket $here/data/redis.sock
dir $here/data
logfile $here/data/redis.log
save 1 1
loglevel verbose
maxmemory 6mb
maxmemory-policy noeviction
CONF
as() { setpriv --reuid=redis --regid=redis --clear-groups -- "$@"; }
as redis-server "$here/redis.conf" >/dev/null 2>&1 & r=$!
trap 'kill -9 $r 2>/dev/null' EXIT
sleep 1; c() { redis-cli -s data/redis.sock "$@" >/dev/null 2>&1; }
for i in $(seq 1 25); do c set error:$i "v$i"; done
sleep 2.3; for i in $(seq 1 25); do c lpush failed-jobs $i; done
sleep 1.5
chmod 555 data; chown root:root data     # what an unfortunate chown of a deployment did
for i in $(seq 1 15); do c set k:$i "v$i"; sleep 1; done
chown redis:redis data; chmod 755 data
for i in $(seq 1 12); do c set again:$i "v$i"; sleep 0.4; done
sleep 6
seq 1 40 | sed "s,^,get again:," | redis-cli -s data/redis.sock >/dev/null 2>&1
c shutdown nosave; wait $r 2>/dev/null
echo ==OUTPUT==
cat data/redis.log
