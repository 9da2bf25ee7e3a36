# needs: journalctl systemd-journal-remote python3
# packages: systemd-journal-remote
# A journal made with systemd's own import tool from an export, then printed by journalctl. The messages are those of a small machine's day.
cat > gen.py <<'PY'
import random
random.seed(17)
PID=812; t=1762128000_000000; n=0
out=[]
def e(unit,ident,pid,prio,msg):
    global t,n
    n+=1; t+=random.randint(2,40)*1_000_000
    out.append(f'__CURSOR=s=0123456789abcdef0123456789abcdef;i={n:x};b=fedcba9876543210fedcba9876543210;m={n:x};t={t:x};x={n:x}\n__REALTIME_TIMESTAMP={t}\n__MONOTONIC_TIMESTAMP={n*1000}\n_BOOT_ID=fedcba9876543210fedcba9876543210\n_MACHINE_ID=00112233445566778899aabbccddeeff\n_HOSTNAME=db1\nPRIORITY={prio}\nSYSLOG_IDENTIFIER={ident}\n_PID={pid}\n_SYSTEMD_UNIT={unit}\nMESSAGE={msg}\n\n')
def noise(k):
    for _ in range(k):
        r=random.randint(0,6)
        if r==0: e('cron.service','CRON',random.randint(900,9000),6,'(www-data) CMD (/usr/local/bin/failed-job-sweeper --max-errors=5 >/dev/null 2>&1)')
        elif r==1: e('ssh.service','sshd',random.randint(900,9000),6,f'Failed password for invalid user admin from 203.0.113.{random.randint(2,250)} port {random.randint(30000,60000)} ssh2')
        elif r==2: e('shop.service','shop',PID,6,f'order {random.randint(5000,9999)} stored, errors=0')
        elif r==3: e('init.scope','systemd',1,6,'logrotate.service: Deactivated successfully.')
        elif r==4: e('shop.service','shop',PID,4,'payment provider: attempt 1 failed (timeout), retrying')
        elif r==5: e('shop.service','shop',PID,7,'error handler registered for route /checkout')
        else: e('chrony.service','chronyd',455,6,'Selected source 192.0.2.7 (ntp.example.com)')
noise(170)
e('kernel','kernel',0,6,'shop invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0')
for x in ('CPU: 1 PID: 2213 Comm: shop Not tainted 6.1.0-40-amd64 #1  Debian 6.1.153-1','Mem-Info:','active_anon:190 inactive_anon:479112 isolated_anon:0','Tasks state (memory values in pages):','[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name','[    812]   998   812   611340   431022  3690496        0             0 shop','[    455]   101   455     4715      212    73728        0             0 chronyd'): e('kernel','kernel',0,6,x)
e('kernel','kernel',0,3,'Out of memory: Killed process 812 (shop) total-vm:2445360kB, anon-rss:1724088kB, file-rss:0kB, shmem-rss:0kB, UID:998 pgtables:3604kB oom_score_adj:0')
e('init.scope','systemd',1,5,'shop.service: A process of this unit has been killed by the OOM killer.')
e('init.scope','systemd',1,5,'shop.service: Main process exited, code=killed, status=9/KILL')
e('init.scope','systemd',1,4,"shop.service: Failed with result 'oom-kill'.")
e('init.scope','systemd',1,6,'shop.service: Scheduled restart job, restart counter is at 1.')
e('init.scope','systemd',1,6,'Started shop.service - Order service.')
PID=2290; noise(110)
open('day.export','w').write(''.join(out))
PY
python3 gen.py; { /lib/systemd/systemd-journal-remote -o day.journal day.export || /lib/systemd/systemd-journal-remote -o day.journal - < day.export; } >prep.log 2>&1
echo ==OUTPUT==
journalctl --file day.journal -o short-iso --no-pager -q 2>&1
