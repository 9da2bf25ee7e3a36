# needs: cmake gcc g++
# packages: cmake 3.25
set -u
mkdir -p cmake src/core src/net src/gui tests
cat > cmake/Checks.cmake <<'T'
include(CheckIncludeFile)
include(CheckSymbolExists)
include(CheckFunctionExists)
include(CheckTypeSize)
include(CheckCCompilerFlag)
foreach(h sys/epoll.h sys/event.h sys/eventfd.h sys/inotify.h sys/sendfile.h sys/uio.h dlfcn.h fcntl.h netdb.h poll.h pwd.h strings.h syslog.h termios.h unistd.h malloc.h copyfile.h port.h kqueue.h windows.h linux/io_uring.h libproc.h mach/mach.h)
  string(TOUPPER "HAVE_${h}" v)
  string(REGEX REPLACE "[/.]" "_" v "${v}")
  check_include_file(${h} ${v})
endforeach()
foreach(f accept4 arc4random_buf clock_gettime closefrom dup3 fdatasync flock fork getentropy getpeereid inotify_init issetugid madvise mkostemp mlock pledge ppoll preadv pthread_setname_np recvmmsg sendmmsg setproctitle sigaction strndup strtonum sysctl timegm unveil utimensat vfork waitid copy_file_range epoll_pwait2 explicit_bzero getrandom kevent memfd_create pipe2 posix_fallocate sendfile splice strlcpy strerror_r strsignal _exit)
  string(TOUPPER "HAVE_${f}" v)
  check_function_exists(${f} ${v})
endforeach()
foreach(f Wall Wextra Wshadow Wthread-safety Wno-error=deprecated fstack-protector-strong fsanitize=safe-stack mretpoline)
  string(MAKE_C_IDENTIFIER "C_${f}" v)
  check_c_compiler_flag(-${f} ${v})
endforeach()
T
cat > cmake/FindLz5.cmake <<'T'
find_path(Lz5_INCLUDE_DIR lz5.h)
find_library(Lz5_LIBRARY lz5)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Lz5 REQUIRED_VARS Lz5_LIBRARY Lz5_INCLUDE_DIR)
T
cat > CMakeLists.txt <<'T'
cmake_minimum_required(VERSION 3.10)
project(courier VERSION 2.8.1 LANGUAGES C CXX)
list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_SOURCE_DIR}/cmake")
option(WITH_GUI "build the window" ON)
include(Checks)
message(STATUS "courier ${PROJECT_VERSION}")
message(WARNING "Building without LTO: the linker plugin failed its self test.  This is no error, only slower.")
add_subdirectory(src/core)
add_subdirectory(src/net)
add_subdirectory(src/gui)
add_subdirectory(tests)
foreach(o core net gui tests docs examples bindings man)
  message(STATUS "option ${o}: ON")
endforeach()
message(STATUS "Install prefix: ${CMAKE_INSTALL_PREFIX}")
message(STATUS "Error reporting: stderr, syslog")
message(STATUS "C flags: ${CMAKE_C_FLAGS}")
message(DEPRECATION "WITH_OLD_API will be removed in 3.0")
T
cat > src/core/CMakeLists.txt <<'T'
include(CheckIncludeFile)
include(CheckTypeSize)
foreach(t "long long" "size_t" "off_t" "time_t" "__int128" "_Float16" "wchar_t")
  string(MAKE_C_IDENTIFIER "SIZEOF_${t}" v)
  check_type_size("${t}" ${v})
endforeach()
find_package(Threads)
find_package(Lz5)
if(NOT Lz5_FOUND)
  message(STATUS "lz5 not found, using the bundled copy")
endif()
T
cat > src/net/CMakeLists.txt <<'T'
include(CheckCSourceCompiles)
foreach(n IPV6 UNIX_SOCKETS SO_REUSEPORT TCP_FASTOPEN MPTCP SO_ERROR_QUEUE)
  check_c_source_compiles("#include <sys/socket.h>\nint main(void){return 0;}" NET_${n})
endforeach()
set(proto_min 9)
set(proto_have 7)
if(proto_have VERSION_LESS proto_min)
  message(SEND_ERROR "protocol tables in src/net/proto.tbl have version ${proto_have}, but courier 2.8 needs ${proto_min}: run tools/gen-proto and configure again")
endif()
foreach(n listen connect accept shutdown error_queue backlog)
  message(STATUS "net: feature ${n} enabled")
endforeach()
T
cat > src/gui/CMakeLists.txt <<'T'
find_package(PkgConfig QUIET)
foreach(i RANGE 1 9)
  message(STATUS "gui: theme ${i} of 9 found")
endforeach()
add_library(gui STATIC window.cpp error_dialog.cpp)
target_link_libraries(gui PRIVATE Courier::net)
T
for f in window error_dialog; do echo "int $f() { return 0; }" > src/gui/$f.cpp; done
cat > tests/CMakeLists.txt <<'T'
enable_testing()
foreach(t parse_error queue_failed io_error roundtrip utf8)
  message(STATUS "test ${t} registered")
  add_test(NAME ${t} COMMAND true)
endforeach()
T
echo ==OUTPUT==
cmake -S . -B build 2>&1
