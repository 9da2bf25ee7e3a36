# needs: gcc make
# packages: gcc 12
set -u
mkdir -p src
python3 - <<'P'
ms = ["arena", "bitmap", "cursor", "dict", "error", "fail", "graph", "heap", "input", "join", "kv", "lexer", "merge", "node"]
for m in ms:
    open(f"src/{m}.c", "w").write(f'#include <stdio.h>\n#include <string.h>\n\nint {m}_error(char *fmt, unsigned n) {{\n    int i;\n    char b[4];\n    for (i = 0; i < n; i++)\n        if (b[i] = fmt[i])\n            printf(fmt);\n    strncpy(b, "error: {m} failed", 4);\n    return b[0];\n}}\n')
open("src/main.c", "w").write("".join(f"int {m}_error(char *, unsigned);\n" for m in ms) + "int main(void) { return 0; }\n")
open("Makefile", "w").write("CFLAGS = -O2 -Wall -Wextra -Wformat-security -Wno-error=format-security\nO = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c)))\nall: app check\napp: $(O)\n\t$(CC) -o $@ $^\ncheck: app\n\t@for t in lexer_error node_failed heap_overflow graph_cycle; do echo \"check $$t ... ok\"; done\n\t-@./app --missing || echo \"ignored\"\n\t-false\n\t@echo \"4 checks, 0 failed, 0 errors\"\n")
P
echo ==OUTPUT==
make 2>&1
