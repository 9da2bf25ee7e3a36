# needs: gcc strace
# packages: gcc 12 strace 6.1
set -u
mkdir -p etc spool
python3 - <<'P'
for i in range(24): open(f"etc/{i:02}-route.conf", "w").write("".join(f"route{j} = 10.0.{i}.{j}\n" for j in range(12)))
P
mkdir spool/outgoing.lock
cat > relay.c <<'T'
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int try_paths(const char *name) {
    static const char *dirs[] = { "/usr/local/etc/relay", "/opt/relay/etc", "/etc/relay", "/usr/share/relay", "./etc" };
    char p[256];
    for (int i = 0; i < 5; i++) {
        snprintf(p, sizeof p, "%s/%s", dirs[i], name);
        int fd = open(p, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) return fd;
    }
    return -1;
}

int main(void) {
    char buf[256];
    struct sigaction sa = { .sa_handler = SIG_IGN };
    for (int s = 1; s < 20; s++) sigaction(s, &sa, NULL);
    signal(SIGCHLD, SIG_DFL);
    for (int i = 0; i < 24; i++) {
        snprintf(buf, sizeof buf, "%02d-route.conf", i);
        int fd = try_paths(buf);
        while (read(fd, buf, sizeof buf) > 0) { }
        close(fd);
    }
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un a = { .sun_family = AF_UNIX, .sun_path = "/run/relay/metrics.sock" };
    if (connect(s, (void *)&a, sizeof a) < 0) dprintf(2, "relay: metrics off: %s\n", strerror(errno));
    close(s);
    if (fork() == 0) { access("/etc/relay/error.log", W_OK); _exit(0); }
    wait(NULL);
    int fd = open("spool/outgoing.lock", O_RDWR | O_CREAT, 0600);
    int ok = fd >= 0;
    for (int i = 0; i < 40; i++) {
        struct stat st;
        snprintf(buf, sizeof buf, "spool/%04d.msg", i);
        stat(buf, &st);
        getppid();
    }
    unlink("spool/relay.pid");
    if (!ok) { dprintf(2, "relay: cannot start\n"); return 3; }
    return 0;
}
T
gcc -O1 -w -o relay relay.c
echo ==OUTPUT==
strace -f ./relay 2>&1 | sed -E 's/, [0-9]+ vars/, 12 vars/; s/(0x7ff[0-9a-f]+) \/\* [0-9]+ vars \*\//\1 \/* 12 vars *\//'
exit ${PIPESTATUS[0]}
