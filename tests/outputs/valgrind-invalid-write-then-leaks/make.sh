# needs: gcc valgrind
# packages: gcc 12 valgrind 3.19
set -u
cat > store.c <<'T'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct item { char name[16]; int qty; struct item *next; };
struct shelf { int cap, len; struct item **items; char *label; };

static struct item *item_new(const char *name, int qty) {
    struct item *it = malloc(sizeof *it);
    strncpy(it->name, name, sizeof it->name);
    it->qty = qty;
    it->next = NULL;
    return it;
}

static struct shelf *shelf_new(const char *label, int cap) {
    struct shelf *s = malloc(sizeof *s);
    s->cap = cap;
    s->len = 0;
    s->items = malloc(cap * sizeof *s->items);
    s->label = strdup(label);
    return s;
}

static void shelf_add(struct shelf *s, struct item *it) {
    s->items[s->len++] = it;
}

static int shelf_total(const struct shelf *s) {
    int n = 0;
    for (int i = 0; i < s->len; i++) n += s->items[i]->qty;
    return n;
}

static char *render_error(int code) {
    char *b = malloc(64);
    snprintf(b, 64, "error %d: recovered", code);
    return b;
}

static void audit(struct shelf *s) {
    for (int i = 0; i < 6; i++) printf("audit %s pass %d: %s\n", s->label, i, render_error(i));
}
T
python3 - >> store.c <<'P'
ks = ["tools", "paint", "wood", "bolts", "wire", "glass", "seeds", "tiles"]
for k in ks:
    print(f"static struct shelf *load_{k}(void) {{\n    struct shelf *s = shelf_new(\"{k}\", 8);\n    for (int i = 0; i < {9 if k == 'wire' else 8}; i++) shelf_add(s, item_new(\"{k}\", i));\n    printf(\"loaded {k}: %d items\\n\", s->len);\n    return s;\n}}\n")
print("int main(void) {\n    setvbuf(stdout, NULL, _IONBF, 0);\n    int total = 0;")
for k in ks: print(f"    struct shelf *{k} = load_{k}();\n    total += shelf_total({k});\n    audit({k});\n" + (f"    free({k}->items);\n" if k != "wood" else ""))
print('    printf("%d items, 0 errors\\n", total);\n    return 0;\n}')
P
gcc -g -O0 -w -o store store.c
echo ==OUTPUT==
valgrind --leak-check=full --show-leak-kinds=all --track-origins=yes --error-exitcode=9 ./store 2>&1
