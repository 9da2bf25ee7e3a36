# needs: gcc make
# packages: gcc 12 (libasan8)
set -u
mkdir -p tests
cat > lru.h <<'T'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct node { int key; char *value; struct node *prev, *next; };
struct lru { int cap, len; struct node *head, *tail; };
static struct node *node_new(int key, const char *v) { struct node *n = calloc(1, sizeof *n); n->key = key; n->value = strdup(v); return n; }
static void node_free(struct node *n) { free(n->value); free(n); }
static void lru_evict(struct lru *l) { struct node *n = l->tail; l->tail = n->prev; if (l->tail) l->tail->next = NULL; else l->head = NULL; l->len--; node_free(n); }
static struct node *lru_put(struct lru *l, int key, const char *v) {
    struct node *n = node_new(key, v);
    n->next = l->head;
    if (l->head) l->head->prev = n; else l->tail = n;
    l->head = n;
    if (++l->len > l->cap) lru_evict(l);
    return n;
}
static const char *lru_get(struct lru *l, int key) { for (struct node *n = l->head; n; n = n->next) if (n->key == key) return n->value; return NULL; }
static void lru_clear(struct lru *l) { while (l->len) lru_evict(l); }
T
for t in create get_missing put_get order clear error_text failed_lookup refill pinned resize shrink stats touch unicode zero_cap; do
  { echo '#include "../lru.h"'; echo 'int main(void) {'; echo '    struct lru l = { 4, 0, 0, 0 };'
    echo "    setvbuf(stdout, NULL, _IONBF, 0); for (int i = 0; i < 24; i++) { char b[32]; sprintf(b, \"value %d\", i); lru_put(&l, i, b); printf(\"$t: put %d ok\\n\", i); }"
    case $t in
      pinned) cat <<'T'
    struct node *pin = lru_put(&l, 100, "pinned");
    for (int i = 0; i < 4; i++) lru_put(&l, 200 + i, "filler");
    printf("pinned: still has %s\n", pin->value);
T
      ;;
      error_text) echo '    printf("ERROR: simulated: heap-buffer-overflow in report (this is only text)\n");' ;;
      stats) echo '    lru_put(&l, 1, "never cleared"); l.head = l.head->next; l.len--;' ;;
    esac
    echo "    lru_clear(&l);"; echo "    printf(\"$t: ok\\n\");"; echo '    return 0;'; echo '}'; } > tests/$t.c
done
cat > Makefile <<'T'
T = $(patsubst tests/%.c,%,$(wildcard tests/*.c))
check: $(addprefix run-,$(T))
	@echo "all tests passed"
bin/%: tests/%.c lru.h
	@mkdir -p bin
	@$(CC) -g -O1 -fsanitize=address -fno-omit-frame-pointer -w -o $@ $<
run-%: bin/%
	@echo "== $*"
	@./bin/$*
.SECONDARY:
T
make -s $(for f in tests/*.c; do echo bin/$(basename $f .c); done) >/dev/null 2>&1
echo ==OUTPUT==
make -k check 2>&1
