# needs: ps top vmstat iostat lsof python3 (procps, sysstat, lsof)
# packages: procps sysstat lsof
here=$PWD; chmod 777 .
cat > w.py <<'PY'
import socket, sys, threading, time, os, signal
s=[socket.socket() for _ in range(8)]
for x in s: x.bind(('127.0.0.1',0)); x.listen()
f=[open(f'error-{i}.log','a') for i in range(12)]
c=[socket.create_connection(s[0].getsockname()) for _ in range(6)]
for i in range(3): threading.Thread(target=time.sleep,args=(60,),daemon=True).start()
time.sleep(60)
PY
cp "$(readlink -f /usr/bin/python3)" shop-worker 2>/dev/null
pids=""; for n in failed-job-sweeper error-reporter mail-queue order-api; do cp shop-worker $n; ( exec setpriv --reuid=65534 --regid=65534 --clear-groups ./$n w.py >/dev/null 2>&1 ) & pids="$pids $!"; done
trap 'kill $pids 2>/dev/null' EXIT
sleep 1.5; P=$(echo $pids | tr ' ' ,)
echo ==OUTPUT==
{
echo '$ ps aux -p ...'; ps u -p $P
echo; echo '$ ps -L'; ps -L -o pid,lwp,stat,pcpu,rss,wchan:20,comm -p $P
echo; echo '$ vmstat -w 1 3'; vmstat -w 1 3
echo; echo '$ iostat -x -y 1 1'; iostat -x -y 1 1 | sed -E '1s/\([^)]*\)/(db1)/'
echo; echo '$ top -b -n 2'; top -b -n 2 -d 0.5 -w 120 -p $P
echo; echo '$ lsof -nP'; lsof -nP -p $P 2>/dev/null
} 2>&1
