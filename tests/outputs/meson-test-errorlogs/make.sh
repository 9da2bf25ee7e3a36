# needs: meson ninja gcc
# packages: meson 1.0.1 ninja-build 1.11
set -u
mkdir -p src tests
python3 - <<'P'
groups = {"ring": ["empty", "wrap", "overflow_error", "grow", "shrink", "drain"], "parser": ["numbers", "strings", "nesting", "bad_escape", "errors", "unicode"], "store": ["open", "reopen", "corrupt", "fsync_failed", "lock", "vacuum"], "clock": ["monotonic", "leap", "zone", "drift"]}
m = "project('ringdb', 'c', version: '0.6.0', default_options: ['warning_level=2'])\ncc = meson.get_compiler('c')\n"
for h in ["sys/eventfd.h", "sys/event.h", "linux/io_uring.h", "kqueue.h", "threads.h"]: m += f"cc.has_header('{h}')\n"
for f in ["fdatasync", "posix_fallocate", "F_FULLFSYNC", "arc4random", "strlcpy"]: m += f"cc.has_function('{f}')\n"
m += "dependency('liburing', required: false)\ndependency('systemtap-sdt', required: false)\nlib = static_library('ringdb', 'src/ring.c')\n"
for g, cs in groups.items():
    m += f"t_{g} = executable('t_{g}', 'tests/{g}.c', link_with: lib)\n"
    for c in cs: m += f"test('{g} {c}', t_{g}, args: ['{c}'], suite: '{g}'{', timeout: 3' if (g, c) == ('store', 'lock') else ''}{', should_fail: true' if (g, c) == ('store', 'corrupt') else ''})\n"
open("meson.build", "w").write(m)
open("src/ring.c", "w").write('''#include "ring.h"
#include <stdlib.h>
struct ring { unsigned head, tail, cap; int *v; };
struct ring *ring_new(unsigned cap) { struct ring *r = calloc(1, sizeof *r); r->cap = cap; r->v = calloc(cap, sizeof(int)); return r; }
int ring_push(struct ring *r, int x) { if (r->tail - r->head > r->cap) return -1; r->v[r->tail++ % r->cap] = x; return 0; }
int ring_pop(struct ring *r) { return r->v[r->head++ % r->cap]; }
''')
open("src/ring.h", "w").write("struct ring;\nstruct ring *ring_new(unsigned);\nint ring_push(struct ring *, int);\nint ring_pop(struct ring *);\n")
for g, cs in groups.items():
    s = '#include "../src/ring.h"\n#include <stdio.h>\n#include <string.h>\n#include <stdlib.h>\n#include <unistd.h>\n#include <assert.h>\n#include <signal.h>\n#define CHECK(c) do { if (!(c)) { printf("%s:%d: check failed: %s\\n", __FILE__, __LINE__, #c); fails++; } } while (0)\nint main(int argc, char **argv) {\n    int fails = 0;\n    const char *t = argv[1];\n    for (int i = 0; i < 14; i++) { printf("[%02d] ' + g + ' %s: step %d ok\\n", i, t, i); if (i % 5 == 3) fprintf(stderr, "[%02d] warning: injected error %d handled\\n", i, i); }\n    fflush(stdout);\n'
    if g == "ring": s += '    if (!strcmp(t, "overflow_error")) {\n        struct ring *r = ring_new(4);\n        for (int i = 0; i < 4; i++) CHECK(ring_push(r, i) == 0);\n        CHECK(ring_push(r, 4) == -1);\n        CHECK(ring_pop(r) == 0);\n    }\n'
    if g == "store": s += '    if (!strcmp(t, "corrupt")) { puts("ERROR: page 7: bad checksum (expected)"); return 1; }\n    if (!strcmp(t, "lock")) { puts("waiting for the lock of writer 2"); fflush(stdout); sleep(30); }\n'
    if g == "parser": s += '    if (!strcmp(t, "nesting")) { int depth = 65; fflush(stdout); assert(depth <= 64 && "parser: nesting too deep"); }\n'
    s += '    for (int i = 0; i < 8; i++) printf("[%02d] ' + g + ' %s: teardown %d ok\\n", i, t, i);\n    return fails != 0;\n}\n'
    open(f"tests/{g}.c", "w").write(s)
P
echo ==OUTPUT==
meson setup build 2>&1 | sed 's/^\(Host machine\|Build machine\).*//' | grep -v 'User defined'
ninja -C build -j1 2>&1
meson test -C build --print-errorlogs --num-processes 1 2>&1
