# needs: autoconf automake gcc make
# packages: autoconf 2.71 automake 1.16
set -u
mkdir -p src
cat > configure.ac <<'T'
AC_INIT([hermes], [3.1.4])
AC_CONFIG_SRCDIR([src/main.c])
AM_INIT_AUTOMAKE([foreign])
AC_PROG_CC
AC_PROG_RANLIB
AC_PROG_INSTALL
AC_HEADER_DIRENT
AC_CHECK_HEADERS([arpa/inet.h fcntl.h kqueue.h netdb.h port.h sys/epoll.h sys/event.h sys/inotify.h windows.h libintl.h])
AC_TYPE_SIZE_T
AC_TYPE_UINT64_T
AC_CHECK_TYPES([ptrdiff_t, struct kevent, __int128])
AC_CHECK_FUNCS([accept4 arc4random dup3 kqueue memmem pledge setproctitle strlcpy unveil])
AC_SEARCH_LIBS([dlopen], [dl])
AC_CHECK_LIB([hdr_histogram], [hdr_init], [], [AC_MSG_WARN([hdr_histogram not found, error percentiles will be rough])])
AC_CACHE_CHECK([whether the resolver is thread-safe], [hermes_cv_resolver], [hermes_cv_resolver=yes])
AC_MSG_CHECKING([for event loop backend])
AC_MSG_RESULT([epoll])
AC_CHECK_LIB([evloop], [evl_run_until], [], [AC_MSG_ERROR([libevloop >= 4.2 is required (evl_run_until not found in -levloop); set LDFLAGS or use --with-bundled-evloop])])
AC_CHECK_FUNCS([sendfile])
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
T
cat > Makefile.am <<'T'
bin_PROGRAMS = hermes
hermes_SOURCES = src/main.c
T
echo 'int main(void) { return 0; }' > src/main.c
autoreconf -fi >/dev/null 2>&1
echo ==OUTPUT==
./configure --prefix=/usr >configure.out 2>&1
status=$?
cat configure.out
if [ $status -ne 0 ]; then
  echo "--- configure ended with $status, config.log follows"
  sed -e "s/$(uname -n)/builder/g" -e '/^uname -v/d' -e "s/^uname -r = .*/uname -r = 6.1.0-28-amd64/" -e 's#/root[^ :]*#/home/dev/bin#g' config.log
fi
exit $status
