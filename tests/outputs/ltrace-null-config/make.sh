# needs: gcc ltrace
# packages: gcc 12 ltrace 0.7.3
set -u
python3 - <<'P'
open("app.conf", "w").write("# app\n" + "".join(f"{k}.{i} = {i * 7}\n" for k in ["error", "retry", "timeout", "queue", "fail_limit"] for i in range(22)) + "workers 4\n" + "".join(f"path.{i} = /srv/{i}\n" for i in range(20)))
P
cat > app.c <<'T'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char *keys[200], *vals[200];
static int n;
static void add(char *line) {
    char *eq = strchr(line, '=');
    char *key = strtok(line, " =\n");
    if (eq) { char *v = strdup(eq + 2); v[strcspn(v, "\n")] = 0; vals[n] = v; }
    keys[n++] = strdup(key);
}
static const char *get(const char *k) { for (int i = 0; i < n; i++) if (strcmp(keys[i], k) == 0) return vals[i]; return ""; }
int main(void) {
    char line[128];
    FILE *f = fopen("app.conf", "r");
    while (fgets(line, sizeof line, f)) if (line[0] != '#') add(line);
    fclose(f);
    printf("read %d keys\n", n);
    getenv("APP_ERROR_LOG");
    puts("error log: none");
    int w = atoi(get("timeout.3"));
    w += strtol(get("workers"), NULL, 10);
    printf("%d workers\n", w);
    return 0;
}
T
gcc -g -O0 -w -fno-builtin -no-pie -z lazy -o app app.c
echo ==OUTPUT==
ltrace ./app 2>&1
