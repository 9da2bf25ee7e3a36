# needs: perf gcc
# packages: linux-perf gcc
cat > a.c <<'C'
#include <stdlib.h>
#include <string.h>
static unsigned h(const char*s){unsigned x=5381;while(*s)x=x*33^(unsigned char)*s++;return x;}
__attribute__((noinline)) int parse_error_codes(char*b,int n){int c=0;for(int i=0;i<n;i++)c+=h(b+i%90)&3;return c;}
__attribute__((noinline)) void retry_failed(int*v,int n){for(int i=1;i<n;i++)for(int j=i;j>0&&v[j]<v[j-1];j--){int t=v[j];v[j]=v[j-1];v[j-1]=t;}}
__attribute__((noinline)) int handle_timeout(int k){double d=k;for(int i=0;i<40000;i++)d=d*1.0000001+i%7;return (int)d;}
int main(){char b[200];memset(b,'x',199);b[199]=0;int v[1500],s=0;for(int r=0;r<220;r++){s+=parse_error_codes(b,9000);for(int i=0;i<1500;i++)v[i]=(i*7919+r)%1500;retry_failed(v,1500);s+=handle_timeout(r);void*p=malloc(100000+r);memset(p,r,100000);free(p);}return s==1;}
C
gcc -g -O1 -o shop-worker a.c >/dev/null 2>&1; perf record -e cpu-clock -F 900 -g -o p.data ./shop-worker >/dev/null 2>&1
echo ==OUTPUT==
perf report -i p.data --stdio --percent-limit 0.05 2>&1 | cut -c1-130
exit ${PIPESTATUS[0]}
