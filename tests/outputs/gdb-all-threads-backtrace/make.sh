# needs: gcc gdb
# packages: gcc 12 gdb 13.1
set -u
cat > spool.c <<'T'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct job { int id; const char *title; char *payload; size_t len; struct job *next; };
struct queue { pthread_mutex_t lock; pthread_cond_t more; struct job *head; int closed; int errors; };

static struct queue q = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, 0, 0 };

static size_t checksum(const char *p, size_t len) {
    size_t sum = 0;
    for (size_t i = 0; i < len; i++) sum = sum * 31 + (unsigned char)p[i];
    return sum;
}

static int render(struct job *j, int depth) {
    char line[32];
    memset(line, 'a' + depth % 26, sizeof line);
    if (depth > 0) return render(j, depth - 1) + line[0];
    return (int)checksum(j->payload, j->len);
}

static void *worker(void *arg) {
    long me = (long)arg;
    int done = 0;
    for (;;) {
        pthread_mutex_lock(&q.lock);
        while (!q.head && !q.closed) pthread_cond_wait(&q.more, &q.lock);
        struct job *j = q.head;
        if (j) q.head = j->next;
        pthread_mutex_unlock(&q.lock);
        if (!j) return NULL;
        printf("worker %ld: job %d \"%s\"\n", me, j->id, j->title);
        done += render(j, 24) != 0;
    }
}

static void *reporter(void *arg) {
    const char *error_text = "no error";
    for (;;) { usleep(1000000); if (arg) puts(error_text); }
}

int main(void) {
    pthread_t t[10];
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (long i = 0; i < 8; i++) pthread_create(&t[i], NULL, worker, (void *)i);
    pthread_create(&t[8], NULL, reporter, NULL);
    for (int i = 0; i < 30; i++) {
        struct job *j = calloc(1, sizeof *j);
        j->id = i;
        j->title = i % 7 == 3 ? "failed import, second try" : "invoice";
        if (i != 23) { j->payload = strdup("page 1"); }
        j->len = 6;
        pthread_mutex_lock(&q.lock);
        j->next = q.head;
        q.head = j;
        pthread_cond_signal(&q.more);
        pthread_mutex_unlock(&q.lock);
        usleep(20000);
    }
    for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
    return 0;
}
T
gcc -g -O0 -pthread -o spool spool.c
echo ==OUTPUT==
gdb -nx -batch -iex 'set debuginfod enabled off' -ex 'set pagination off' -ex run -ex 'info threads' -ex 'thread apply all bt full' -ex 'info registers' -ex 'disassemble' -ex 'info sharedlibrary' --return-child-result ./spool 2>&1
