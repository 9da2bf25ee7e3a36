# needs: autoconf automake gcc make
# packages: autoconf 2.71 automake 1.16
set -u
mkdir -p src tests
cat > configure.ac <<'T'
AC_INIT([tally], [0.3])
AM_INIT_AUTOMAKE([foreign subdir-objects parallel-tests])
AC_PROG_CC
AC_CHECK_HEADERS([sys/event.h kqueue.h windows.h sys/inotify.h])
AC_CHECK_FUNCS([kqueue strlcpy strerror_r arc4random reallocarray])
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
T
T=; for t in add empty error_exit failed_read huge input_error list merge negative overflow panic quiet repeat signal truncate; do
  T="$T tests/$t.sh"
  printf '#!/bin/sh\necho "%s: running"\n./tally 1 2 3\ncase %s in *error*|*failed*) echo "error: injected, recovered" >&2 ;; esac\nexit %s\n' $t $t $(case $t in overflow|signal) echo 1 ;; huge) echo 77 ;; *) echo 0 ;; esac) > tests/$t.sh
done
chmod +x tests/*.sh
cat > Makefile.am <<A
bin_PROGRAMS = tally
tally_SOURCES = src/main.c src/error.c
AM_CFLAGS = -Wall -Wextra
TESTS =$T
XFAIL_TESTS = tests/overflow.sh tests/signal.sh
EXTRA_DIST = \$(TESTS)
A
echo 'int error_count(int unused) { return 0; }' > src/error.c
printf '#include <stdio.h>\nint main(int argc, char **argv) { printf("%%d numbers, 0 errors\\n", argc - 1); }\n' > src/main.c
autoreconf -fi >/dev/null 2>&1
echo ==OUTPUT==
(./configure && make && make check && cat test-suite.log) 2>&1
