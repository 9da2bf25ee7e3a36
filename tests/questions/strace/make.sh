# needs: strace python3 sh setpriv
# packages:
# A backup script with much going wrong, run as nobody under strace.
D=/tmp/nightly; rm -rf $D; mkdir -p $D/src/photos $D/src/ledger $D/spool $D/etc; cd $D
for i in 1 2 3 4 5 6; do head -c 3000 /dev/zero > src/photos/beach-$i.jpg; done; echo 'a,b' > src/ledger/2024-q1.csv; echo x > src/ledger/2024-q2.csv; chown -R 65534:65534 src spool
echo secret > etc/vault.key; chmod 600 etc/vault.key; printf 'target=/dev/shm/nightly-out\nkeep=3\n' > etc/backup.conf.dist; ln -s loop-b src/loop-a; ln -s loop-a src/loop-b; ln -s /srv/gone src/ledger/archive
mkdir src/locked-by-tax-office; chmod 700 src/locked-by-tax-office
cat > backup.py <<'PY'
import os, socket, gzip, signal, fcntl, subprocess, resource, time, errno
def t(f,*a,**k):
    try: return f(*a,**k)
    except OSError as e: return e
for p in ('etc/backup.conf','etc/backup.conf.local','etc/backup.conf.dist'): t(lambda: open(p).read())
t(open,'etc/vault.key')
l=open('spool/.lock','w'); fcntl.flock(l,fcntl.LOCK_EX|fcntl.LOCK_NB); l2=open('spool/.lock'); t(fcntl.flock,l2,fcntl.LOCK_EX|fcntl.LOCK_NB)
s=socket.socket(); s.settimeout(2); t(s.connect,('127.0.0.1',5439)); s.close()
u=socket.socket(socket.AF_UNIX); t(u.connect,'/run/mysqld/mysqld.sock'); u.close()
t(os.listdir,'src/locked-by-tax-office'); t(open,'src/loop-a'); t(open,'src/ledger/archive')
for r,d,f in os.walk('src'):
    for x in sorted(f):
        p=r+'/'+x
        if 'loop' in x or x=='archive': continue
        with open(p,'rb') as i, gzip.open('spool/'+x+'.gz','wb') as o: o.write(i.read())
        os.stat('spool/'+x+'.gz')
t(os.rename,'spool/2024-q1.csv.gz','/dev/shm/2024-q1.csv.gz')
f=open('/dev/full','w'); f.write('catalogue of tonight'); t(f.flush); 
try: f.close()
except OSError: pass
t(open,'spool/'+'very-long-album-title-'*14,'w')
t(os.mkdir,'spool/weekly'); t(os.mkdir,'spool/weekly'); open('spool/weekly/keep','w').close(); t(os.rmdir,'spool/weekly')
t(os.setpriority,os.PRIO_PROCESS,0,-10); t(os.setuid,0); t(os.chown,'spool/weekly',0,0); t(os.chroot,'/')
t(os.unlink,'/etc/hostname.backup-test'); t(os.mknod,'spool/tape0',0o60600,0x900)
subprocess.run(['sh','-c','exec par2create --redundancy 10 spool/photos'],stderr=subprocess.DEVNULL)
subprocess.run(['sh','-c','ulimit -f 1; trap "" XFSZ; cat src/photos/*.jpg > spool/album.tar'],stderr=subprocess.DEVNULL)
subprocess.run(['sh','-c','yes checksum | head -n 1 > spool/sum'])
p=subprocess.Popen(['sleep','30']); time.sleep(.1); p.send_signal(signal.SIGKILL); p.wait()
r,w=os.pipe(); signal.signal(signal.SIGALRM,lambda *a:None); signal.setitimer(signal.ITIMER_REAL,.05); 
signal.siginterrupt(signal.SIGALRM,True)
import select; select.select([r],[],[],.2); os.close(r); signal.signal(signal.SIGPIPE,signal.SIG_IGN); t(os.write,w,b'progress 71%')
t(resource.setrlimit,resource.RLIMIT_NOFILE,(9,9)); fs=[]; 
for i in range(12): fs.append(t(open,'src/photos/beach-1.jpg'))
[x.close() for x in fs if not isinstance(x,OSError)]
t(os.removexattr,'spool/sum','user.verified'); t(os.link,'spool/sum','/proc/sum'); os._exit(3)
PY
echo ==OUTPUT==
cd $D; setpriv --reuid=65534 --regid=65534 --clear-groups env -i PATH=/usr/bin:/bin HOME=/nonexistent LC_ALL=nn_NO.UTF-8 TZ=UTC PYTHONDONTWRITEBYTECODE=1 strace -f -t -s 64 -o spool/.trace -e trace='!mmap,munmap,mprotect,brk,rt_sigaction,lseek' /usr/bin/python3 -S backup.py
cat spool/.trace; cd /; rm -rf $D
