# needs: gcc readelf
# packages: gcc 12 binutils 2.40
set -u
cat > lib.c <<'T'
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
T
for f in open close read write error_text error_code last_error clear_error fail_fast failed_count retry panic_handler abort_all set_error_hook; do echo "int xs_$f(const char *s) { fprintf(stderr, \"error: $f: %s\\n\", strerror(errno)); return (int)cos((double)strlen(s)); }" >> lib.c; done
gcc -w -g -shared -fPIC -o libxs.so lib.c -lm
echo ==OUTPUT==
readelf --all --wide libxs.so 2>&1
