# needs: strace gcc
# packages: strace gcc
cat > app.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <locale.h>
int main(void){
  setlocale(LC_ALL,""); signal(SIGABRT,SIG_IGN); signal(SIGSEGV,SIG_DFL);
  const char*dirs[]={"/etc/shop","/usr/local/etc/shop","./conf"}; char p[200];
  for(int i=0;i<3;i++) for(int j=0;j<5;j++){ sprintf(p,"%s/%02d-error.conf",dirs[i],j); if(access(p,R_OK)) continue; int f=open(p,O_RDONLY); char b[4096]; read(f,b,4096); close(f);}
  for(int i=0;i<55;i++){ sprintf(p,"spool/job-%02d.txt",i); int f=open(p,O_RDONLY); if(f<0){continue;} char b[200]; read(f,b,200); close(f); sprintf(p,"spool/job-%02d.done",i); f=open(p,O_WRONLY|O_CREAT,0644); write(f,"ok\n",3); close(f);}
  int f=open("spool/ledger.db",O_RDWR);
  if(f<0){ int e=errno; for(int i=0;i<20;i++){ usleep(10); sprintf(p,"spool/tmp-%02d",i); unlink(p);} 
    FILE*l=fopen("shop.log","a"); fprintf(l,"ledger: error %d\n",e); fclose(l); for(int i=0;i<25;i++) getppid();
    fprintf(stderr,"shop: cannot start\n"); exit(4);}
  return 0;}
C
gcc -O1 -w -o shop app.c >/dev/null 2>&1
mkdir -p conf spool; for j in 0 2 4; do echo x > conf/0$j-error.conf; done; for i in $(seq -w 0 2 54); do echo "job $i" > spool/job-$i.txt; done
echo db > spool/ledger.db; chmod 444 spool/ledger.db; chown -R nobody spool .; chmod 755 .; : > shop.log; chown nobody shop.log
echo ==OUTPUT==
setpriv --reuid=65534 --regid=65534 --clear-groups strace ./shop 2>&1
