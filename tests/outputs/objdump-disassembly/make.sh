# needs: gcc objdump
# packages: gcc 12 binutils 2.40
set -u
cat > vm.c <<'T'
#include <stdio.h>
#include <stdlib.h>
enum op { PUSH, ADD, MUL, JMP, PRINT, HALT };
static void fatal_error(const char *why) { fprintf(stderr, "fatal error: %s\n", why); exit(1); }
static int failed;
int check_failed(int x) { if (x < 0) { failed++; fatal_error("negative"); } return x; }
int stack_overflow_error(int *sp, int *end) { if (sp >= end) fatal_error("stack overflow"); return 0; }
int run(const int *code, int n) {
    int stack[64], *sp = stack;
    for (int i = 0; i < n; i++) {
        switch (code[i]) {
        case PUSH: stack_overflow_error(sp, stack + 64); *sp++ = code[++i]; break;
        case ADD: sp--; sp[-1] += *sp; break;
        case MUL: sp--; sp[-1] *= *sp; break;
        case JMP: i = check_failed(code[i + 1]); break;
        case PRINT: printf("%d\n", sp[-1]); break;
        case HALT: return 0;
        default: fatal_error("bad opcode");
        }
    }
    return failed;
}
int main(void) { static const int code[] = { PUSH, 2, PUSH, 3, ADD, PUSH, 4, MUL, PRINT, HALT }; return run(code, 10); }
T
gcc -O1 -g -o vm vm.c
echo ==OUTPUT==
objdump -d -S -l --no-show-raw-insn vm 2>&1
