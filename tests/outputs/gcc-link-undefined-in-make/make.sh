# needs: gcc make ar
# packages: gcc 12
set -u
mkdir -p lib cmd
python3 - <<'P'
mods = ["args", "base64", "config", "crc", "date", "dirs", "env", "error", "fifo", "glob", "hash", "list", "lock", "log", "net", "path", "pool", "proc", "queue", "rand", "ring", "sig", "str", "tree", "utf8", "vec", "xml", "zip"]
hdr = "#ifndef U_H\n#define U_H\n#include <stdio.h>\n#include <string.h>\n#include <stdlib.h>\n" + "".join(f"int u_{m}_init(int, char *);\nint u_{m}_error(void);\n" for m in mods) + "int u_zip_inflate(const void *, unsigned long);\nint u_net_tls_connect(const char *);\n#endif\n"
open("lib/u.h", "w").write(hdr)
for i, m in enumerate(mods):
    open(f"lib/{m}.c", "w").write(f'#include "u.h"\n\nstatic int {m}_failed;\n\nint u_{m}_init(int flags, char *name) {{\n    char buf[8];\n    unsigned len = strlen(name);\n    for (int i = 0; i < len; i++) buf[i % 8] = name[i];\n    sprintf(buf, "%d", {m}_failed);\n    return buf[0];\n}}\n\nint u_{m}_error(void) {{ return {m}_failed; }}\n')
tools = ["cat", "fetch", "lint", "pack", "sync", "watch"]
for t in tools:
    extra = {"fetch": "    n += u_net_tls_connect(argv[1]);\n", "pack": "    n += u_zip_inflate(argv[0], 4);\n"}.get(t, "")
    open(f"cmd/{t}.c", "w").write(f'#include "../lib/u.h"\n\nint main(int argc, char **argv) {{\n    int n = u_args_init(argc, argv[0]);\n{extra}    if (u_error_error()) fprintf(stderr, "{t}: error: not initialised\\n");\n    return n < 0;\n}}\n')
open("Makefile", "w").write("CFLAGS = -g -O2 -Wall -Wextra -Wformat-overflow=2\nLIB = " + " ".join(f"lib/{m}.o" for m in mods) + "\nCMDS = " + " ".join(f"bin/{t}" for t in tools) + '''

all: $(CMDS)
	@echo "all commands linked"

bin/%: cmd/%.o libu.a
	@mkdir -p bin
	$(CC) $(LDFLAGS) -o $@ $< -L. -lu -lm

libu.a: $(LIB)
	$(AR) rcs $@ $^

%.o: %.c lib/u.h
	$(CC) $(CFLAGS) -c -o $@ $<

.SECONDARY:
clean:
	rm -rf bin lib/*.o cmd/*.o libu.a
''')
P
echo ==OUTPUT==
make -k -j2 2>&1
status=$?
echo "== size report"
size bin/* 2>&1
ls -l bin lib/*.o 2>&1 | awk '{ print $5, $9 }'
exit $status
