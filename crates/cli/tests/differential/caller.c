// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Makes the calls that its input names, one a line. It answers `sync` with their results, one word each:
//
//   RESULT[:DETAIL][!SIGNAL…][~TREE]
//
// RESULT is the number that was returned, an error's name, or `waits` (not made, because it would wait or affect other
// processes). DETAIL is what was returned in memory. TREE is a digest of the tree (names, kinds, modes, owners, sizes,
// links, whether just written), where the call changed it.
//
// One word of its command line is the only directory to which it may write (for root, where no sandbox is needed for that).
//
//   begin DIRECTORY         a new sequence: this working directory, /dev/null as the first three descriptors and no other,
//                           the usual mask and limits, a handler for each signal
//   CALL ARGUMENT...        a number, or constants and numbers with `|` between them; 'TEXT' with `%` for DIRECTORY and no
//                           space; NULL; BAD, a pointer to nowhere; by kind what `argument` reads
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <sched.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <netinet/in.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

// One letter for each argument, unless "and" stands here:
//   i a number   p a text   b a text and its length   o NUMBER: a buffer and its size   0 zero, of which nothing is said
//   s a stat buffer   x a statx buffer   q two numbers   h an open_how (two numbers) and its size
//   a an address and its length   A a buffer for an address and a pointer to its size
//   T two times as timespec   U as timeval   B as utimbuf   S a set of signals   R a buffer for one   8 the size of one
//   H how a signal is handled   L NUMBER: a soft limit for the resource before it   l a buffer for limits
// `in`, `out`: the descriptor, by its place among the arguments, that must be ready for it, from 1 on; 0: none.
struct call { const char *name; long number; const char *shape; unsigned char in, out; };
#define CALL(name, ...) { #name, SYS_##name, __VA_ARGS__ }
static const struct call calls[] = {
#ifdef SYS_open
    CALL(open, "pii", 0, 0), CALL(creat, "pi", 0, 0), CALL(mkdir, "pi", 0, 0), CALL(mknod, "pi0", 0, 0),
    CALL(symlink, "pp", 0, 0), CALL(link, "pp", 0, 0), CALL(rename, "pp", 0, 0), CALL(unlink, "p", 0, 0),
    CALL(rmdir, "p", 0, 0), CALL(chmod, "pi", 0, 0), CALL(chown, "pii", 0, 0), CALL(lchown, "pii", 0, 0),
    CALL(utime, "pB", 0, 0), CALL(utimes, "pU", 0, 0), CALL(futimesat, "ipU", 0, 0), CALL(access, "pi", 0, 0),
    CALL(stat, "ps", 0, 0), CALL(lstat, "ps", 0, 0), CALL(readlink, "po", 0, 0), CALL(dup2, "ii", 0, 0),
    CALL(pipe, "q", 0, 0),
#endif
#ifdef SYS_renameat
    CALL(renameat, "ipip", 0, 0),
#endif
    CALL(openat, "ipii", 0, 0), CALL(openat2, "iph", 0, 0), CALL(mkdirat, "ipi", 0, 0), CALL(mknodat, "ipi0", 0, 0),
    CALL(symlinkat, "pip", 0, 0), CALL(linkat, "ipipi", 0, 0), CALL(renameat2, "ipipi", 0, 0),
    CALL(unlinkat, "ipi", 0, 0), CALL(fchmodat, "ipi", 0, 0), CALL(fchmod, "ii", 0, 0),
    { "fchmodat2", 452, "ipii", 0, 0 },
    CALL(fchownat, "ipiii", 0, 0), CALL(fchown, "iii", 0, 0), CALL(truncate, "pi", 0, 0),
    CALL(utimensat, "ipTi", 0, 0), CALL(setxattr, "ppbi", 0, 0), CALL(lsetxattr, "ppbi", 0, 0),
    CALL(fsetxattr, "ipbi", 0, 0), CALL(getxattr, "ppo", 0, 0), CALL(lgetxattr, "ppo", 0, 0),
    CALL(fgetxattr, "ipo", 0, 0), CALL(removexattr, "pp", 0, 0), CALL(lremovexattr, "pp", 0, 0),
    CALL(fremovexattr, "ip", 0, 0), CALL(listxattr, "po", 0, 0), CALL(flistxattr, "io", 0, 0),
    CALL(faccessat, "ipi", 0, 0), CALL(faccessat2, "ipii", 0, 0), CALL(newfstatat, "ipsi", 0, 0),
    CALL(fstat, "is", 0, 0), CALL(statx, "ipiix", 0, 0), CALL(readlinkat, "ipo", 0, 0), CALL(chdir, "p", 0, 0),
    CALL(fchdir, "i", 0, 0), CALL(getcwd, "o", 0, 0), CALL(umask, "i", 0, 0), CALL(getdents64, "io", 0, 0),
    CALL(read, "io", 1, 0), CALL(pread64, "ioi", 1, 0), CALL(write, "ib", 0, 1), CALL(pwrite64, "ibi", 0, 1),
    CALL(lseek, "iii", 0, 0), CALL(ftruncate, "ii", 0, 0), CALL(fallocate, "iiii", 0, 0), CALL(fsync, "i", 0, 0),
    CALL(dup, "i", 0, 0), CALL(dup3, "iii", 0, 0), CALL(close, "i", 0, 0), CALL(close_range, "iii", 0, 0),
    CALL(fcntl, "iii", 0, 0), CALL(flock, "ii", 0, 0), CALL(pipe2, "qi", 0, 0), CALL(sendfile, "ii0i", 2, 1),
    CALL(copy_file_range, "i0i0ii", 1, 3), CALL(memfd_create, "pi", 0, 0), CALL(eventfd2, "ii", 0, 0),
    CALL(socket, "iii", 0, 0), CALL(socketpair, "iiiq", 0, 0), CALL(bind, "ia", 0, 0), CALL(connect, "ia", 0, 0),
    CALL(listen, "ii", 0, 0), CALL(accept4, "iAi", 1, 0), CALL(getsockname, "iA", 0, 0), CALL(getpeername, "iA", 0, 0),
    CALL(shutdown, "ii", 0, 0), CALL(sendto, "ibia", 0, 1), CALL(recvfrom, "ioi00", 1, 0),
    CALL(kill, "ii", 0, 0), CALL(tgkill, "iii", 0, 0), CALL(rt_sigprocmask, "iSR8", 0, 0),
    CALL(rt_sigpending, "R8", 0, 0), CALL(rt_sigaction, "iH08", 0, 0), CALL(rt_sigtimedwait, "S0T8", 0, 0),
    CALL(prlimit64, "0iL0", 0, 0), CALL(setrlimit, "iL", 0, 0), CALL(getrlimit, "il", 0, 0),
};

struct constant { const char *name; unsigned long value; };
#define IS(name) { #name, (unsigned long)(name) }
static const struct constant constants[] = {
    IS(O_RDONLY), IS(O_WRONLY), IS(O_RDWR), IS(O_CREAT), IS(O_EXCL), IS(O_NOCTTY), IS(O_TRUNC), IS(O_APPEND), IS(O_NONBLOCK),
    IS(O_DSYNC), IS(O_SYNC), IS(O_DIRECT), IS(O_NOATIME), IS(O_CLOEXEC), IS(O_DIRECTORY), IS(O_NOFOLLOW), IS(O_PATH),
    IS(O_ASYNC), { "O_LARGEFILE", 0100000 }, { "__O_TMPFILE", O_TMPFILE & ~O_DIRECTORY }, IS(O_TMPFILE),
    IS(RESOLVE_NO_SYMLINKS), IS(RESOLVE_BENEATH), IS(RESOLVE_IN_ROOT), IS(RESOLVE_NO_MAGICLINKS), IS(RESOLVE_NO_XDEV),
    IS(AT_FDCWD), IS(AT_SYMLINK_NOFOLLOW), IS(AT_SYMLINK_FOLLOW), IS(AT_EMPTY_PATH), IS(AT_REMOVEDIR), IS(AT_EACCESS),
    IS(AT_NO_AUTOMOUNT), IS(S_IFREG), IS(S_IFIFO), IS(S_IFSOCK), IS(S_IFCHR), IS(S_IFDIR), IS(S_IFLNK),
    IS(S_ISUID), IS(S_ISGID), IS(S_ISVTX), IS(RENAME_NOREPLACE), IS(RENAME_EXCHANGE), IS(RENAME_WHITEOUT),
    IS(XATTR_CREATE), IS(XATTR_REPLACE), IS(R_OK), IS(W_OK), IS(X_OK), IS(SEEK_SET), IS(SEEK_CUR), IS(SEEK_END),
    IS(SEEK_DATA), IS(SEEK_HOLE), IS(F_DUPFD), IS(F_DUPFD_CLOEXEC), IS(F_GETFD), IS(F_SETFD), IS(F_GETFL), IS(F_SETFL),
    IS(F_GETPIPE_SZ), IS(F_GET_SEALS), IS(F_ADD_SEALS), IS(F_SEAL_WRITE), IS(F_SEAL_GROW), IS(FD_CLOEXEC), IS(LOCK_SH),
    IS(LOCK_EX), IS(LOCK_UN), IS(LOCK_NB), IS(FALLOC_FL_KEEP_SIZE), IS(FALLOC_FL_PUNCH_HOLE), IS(MFD_CLOEXEC),
    IS(MFD_ALLOW_SEALING), IS(STATX_BASIC_STATS), IS(CLOSE_RANGE_CLOEXEC), IS(AF_UNIX), IS(AF_INET), IS(SOCK_STREAM),
    IS(SOCK_DGRAM), IS(SOCK_SEQPACKET), IS(SOCK_RAW), IS(SOCK_NONBLOCK), IS(SOCK_CLOEXEC), IS(MSG_DONTWAIT), IS(MSG_PEEK),
    IS(MSG_NOSIGNAL), IS(MSG_TRUNC), IS(SHUT_RD), IS(SHUT_WR), IS(SHUT_RDWR), IS(SIG_BLOCK), IS(SIG_UNBLOCK),
    IS(SIG_SETMASK), IS(SIGUSR1), IS(SIGUSR2), IS(SIGALRM), IS(SIGPIPE), IS(SIGXFSZ), IS(SIGIO), IS(SIGTERM), IS(SIGSYS),
    IS(SIGURG), IS(SIGCONT), IS(SA_RESTART), IS(SA_NODEFER), IS(SA_SIGINFO), IS(RLIMIT_NOFILE), IS(RLIMIT_FSIZE),
};
static const int handled[] = { SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE, SIGXFSZ, SIGIO, SIGTERM, SIGURG, SIGCONT };
#define SIGNALS (sizeof handled / sizeof *handled)
#define FIRST_OWN 900
#define SHOWN 160

struct kernel_action { void *handler; unsigned long flags; void *restorer; uint64_t mask; };

static char ground[4096];
static volatile sig_atomic_t counts[SIGNALS];
static struct kernel_action usual;
static rlim_t most_files;
static FILE *input, *output;

// ---- what the tree is ---------------------------------------------------------------------------

static uint64_t mix(uint64_t hash, const void *bytes, size_t length) {
    for (size_t at = 0; at < length; at++) hash = (hash ^ ((const unsigned char *)bytes)[at]) * 0x100000001b3;
    return hash;
}

static uint64_t digest_of(int directory, const char *name, uint64_t above, int depth) {
    struct stat stat;
    if (fstatat(directory, name, &stat, AT_SYMLINK_NOFOLLOW)) return mix(above, &errno, sizeof errno);
    int is_directory = S_ISDIR(stat.st_mode);
    uint64_t own = mix(above, name, strlen(name));
    uint64_t fields[] = { stat.st_mode, stat.st_nlink, stat.st_uid, stat.st_gid, is_directory ? 0 : (uint64_t)stat.st_size,
                          (uint64_t)(stat.st_mtime > time(NULL) - 3600 ? -1 : stat.st_mtime) };
    uint64_t hash = mix(own, fields, sizeof fields);
    if (S_ISLNK(stat.st_mode)) {
        char text[256];
        ssize_t length = readlinkat(directory, name, text, sizeof text);
        return mix(hash, text, length > 0 ? (size_t)length : 0);
    }
    if (!is_directory || depth > 8) return hash;
    int opened = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NOATIME);
    DIR *entries = opened >= 0 ? fdopendir(opened) : NULL;
    if (!entries) {
        hash = mix(hash, &errno, sizeof errno);
        if (opened >= 0) close(opened);
        return hash;
    }
    for (struct dirent *entry; (entry = readdir(entries));)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            hash += digest_of(opened, entry->d_name, own, depth + 1);
    closedir(entries);
    return hash;
}

// From the directory above the ground on, which `..` leads to.
static uint64_t digest(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    struct rlimit raised = { most_files, limit.rlim_max };
    int limited = limit.rlim_cur < most_files;
    if (limited) setrlimit(RLIMIT_NOFILE, &raised);
    char above[4100];
    snprintf(above, sizeof above, "%.*s", (int)(strrchr(ground, '/') - ground), ground);
    uint64_t hash = digest_of(AT_FDCWD, above, 0xcbf29ce484222325, 0);
    if (limited) setrlimit(RLIMIT_NOFILE, &limit);
    return hash;
}

// ---- arguments ----------------------------------------------------------------------------------

static unsigned long number(const char *word) {
    unsigned long value = 0;
    char text[512], *rest = NULL;
    snprintf(text, sizeof text, "%s", word);
    for (char *part = strtok_r(text, "|", &rest); part; part = strtok_r(NULL, "|", &rest)) {
        size_t at = 0, count = sizeof constants / sizeof *constants;
        while (at < count && strcmp(constants[at].name, part)) at++;
        if (at < count) value |= constants[at].value;
        else if (!strcmp(part, "self")) value |= (unsigned long)getpid();
        else value |= strtoul(part, NULL, 0);
    }
    return value;
}

// 'TEXT' with the ground for each %; the quotes go.
static char *text_of(const char *word, char *to, size_t size) {
    size_t length = 0, end = strlen(word);
    for (size_t at = 1; at + 1 < end; at++)
        length += (size_t)snprintf(to + length, size - length, word[at] == '%' ? "%s" : "%.1s", word[at] == '%' ? ground : word + at);
    to[length] = 0;
    return to;
}

static uint64_t signals_of(const char *word) {
    uint64_t set = 0;
    char text[512], *rest = NULL;
    snprintf(text, sizeof text, "%s", word);
    for (char *part = strtok_r(text, "|", &rest); part; part = strtok_r(NULL, "|", &rest))
        if (number(part)) set |= 1ull << (number(part) - 1);
    return set;
}

// SECONDS.NANOSECONDS, `now` or `omit`.
static struct timespec time_of(const char *word) {
    if (!strcmp(word, "now")) return (struct timespec){ 0, UTIME_NOW };
    if (!strcmp(word, "omit")) return (struct timespec){ 0, UTIME_OMIT };
    char *rest;
    long seconds = strtol(word, &rest, 10);
    return (struct timespec){ seconds, *rest ? strtol(rest + 1, NULL, 10) : 0 };
}

static void handle(int signal) {
    for (size_t at = 0; at < SIGNALS; at++) if (handled[at] == signal) counts[at]++;
}

// What an argument points to, and what is answered in it.
struct memory {
    char text[2][8400], out[70000];
    struct stat stat;
    struct statx statx;
    int pair[2];
    struct open_how how;
    struct sockaddr_storage address;
    socklen_t size;
    struct timespec times[2];
    struct timeval small_times[2];
    struct utimbuf whole_times;
    uint64_t set, got;
    struct rlimit limit;
    struct kernel_action action;
};
static struct memory memory;
static size_t asked;

static void address_of(const char *word, long *arguments, int *count) {
    struct sockaddr_un *unix_address = (void *)&memory.address;
    struct sockaddr_in *internet = (void *)&memory.address;
    memset(&memory.address, 0, sizeof memory.address);
    size_t size = 0;
    if (word[0] == '\'' || word[0] == '@') {
        char text[4200];
        text_of(word + (word[0] == '@'), text, sizeof text);
        unix_address->sun_family = AF_UNIX;
        size_t before = word[0] == '@', length = strlen(text);
        if (length > sizeof unix_address->sun_path - 1) length = sizeof unix_address->sun_path - 1;
        memcpy(unix_address->sun_path + before, text, length);
        size = offsetof(struct sockaddr_un, sun_path) + before + length + !before;
    } else if (!strcmp(word, "unnamed")) {
        unix_address->sun_family = AF_UNIX;
        size = sizeof unix_address->sun_family;
    } else if (!strcmp(word, "internet")) {
        internet->sin_family = AF_INET;
        internet->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        size = sizeof *internet;
    }
    arguments[(*count)++] = size ? (long)&memory.address : 0;
    arguments[(*count)++] = (long)size;
}

// Puts one or more arguments where the letter wants them.
static void argument(char letter, char *word, long *arguments, int *count, int *texts) {
    int is_null = !strcmp(word, "NULL"), is_bad = !strcmp(word, "BAD");
    void *pointer = NULL, *nowhere = (void *)1;
    char *second = NULL;
    switch (letter) {
    case 'i': arguments[(*count)++] = (long)number(word); return;
    case 'a': address_of(word, arguments, count); return;
    case 'p': case 'b':
        pointer = text_of(word, memory.text[*texts], sizeof memory.text[0]);
        break;
    case 'o': pointer = memory.out; break;
    case 'h':
        second = strchr(word, ',');
        if (second) *second++ = 0;
        memory.how = (struct open_how){ .flags = number(word), .resolve = second ? number(second) : 0 };
        if (memory.how.flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) memory.how.mode = 0644;
        pointer = &memory.how;
        break;
    case 'T': case 'U': case 'B':
        if ((second = strchr(word, ','))) *second++ = 0;
        for (int at = 0; at < 2; at++) {
            memory.times[at] = time_of(at && second ? second : word);
            memory.small_times[at] = (struct timeval){ memory.times[at].tv_sec, memory.times[at].tv_nsec };
        }
        memory.whole_times = (struct utimbuf){ memory.times[0].tv_sec, memory.times[1].tv_sec };
        pointer = letter == 'T' ? (void *)memory.times : letter == 'U' ? (void *)memory.small_times : (void *)&memory.whole_times;
        break;
    case 'S': memory.set = signals_of(word); pointer = &memory.set; break;
    case 'R': pointer = &memory.got; break;
    case 'L':
        // The hard limit stays.
        getrlimit((int)arguments[*count - 1], &memory.limit);
        memory.limit.rlim_cur = number(word);
        pointer = &memory.limit;
        break;
    case 'H':
        if ((second = strchr(word, ','))) *second++ = 0;
        memory.action = usual;
        memory.action.handler = !strcmp(word, "ignore") ? (void *)SIG_IGN : (void *)handle;
        memory.action.flags = (usual.flags & 0x04000000) | (second ? number(second) : 0);
        pointer = &memory.action;
        break;
    }
    arguments[(*count)++] = (long)(is_null ? NULL : is_bad ? nowhere : pointer);
    if (letter == 'b') arguments[(*count)++] = is_null || is_bad ? 3 : (long)strlen(pointer);
    if (letter == 'o') arguments[(*count)++] = (long)(asked = is_bad ? 16 : number(word));
    if (letter == 'h') arguments[(*count)++] = sizeof memory.how;
    if (letter == 'p' || letter == 'b') *texts = 1;
}

// ---- answers ------------------------------------------------------------------------------------

static void show(const char *bytes, size_t length) {
    size_t shown = length < SHOWN ? length : SHOWN;
    for (size_t at = 0; at < shown; at++)
        fputc(bytes[at] > ' ' && bytes[at] < 127 && bytes[at] != '~' && bytes[at] != '!' ? bytes[at] : '_', output);
    if (length > shown) fprintf(output, "+%016lx", mix(0xcbf29ce484222325, bytes, length));
}

static int by_name(const void *left, const void *right) { return strcmp(*(char *const *)left, *(char *const *)right); }

static void show_names(const char *entries, long length) {
    const char *names[256];
    size_t count = 0;
    for (long at = 0; at < length && count < 256; at += ((const struct dirent64 *)(entries + at))->d_reclen)
        names[count++] = ((const struct dirent64 *)(entries + at))->d_name;
    qsort(names, count, sizeof *names, by_name);
    for (size_t at = 0; at < count; at++) {
        show(names[at], strlen(names[at]));
        fputc(',', output);
    }
}

static void show_address(void) {
    struct sockaddr_un *address = (void *)&memory.address;
    fprintf(output, "%d,%u,", address->sun_family, memory.size);
    // The kernel's own names: a null and five digits.
    if (address->sun_family == AF_UNIX && memory.size == 8 && !address->sun_path[0]
        && strspn(address->sun_path + 1, "0123456789abcdef") >= 5) fputs("numbered", output);
    else if (address->sun_family == AF_UNIX && memory.size > 2) show(address->sun_path, memory.size - 2);
}

// The kernel gives a new number to a pipe, a socket or a file without a name each time, so its name is printed without it.
static size_t named(size_t length) {
    const char *number = memchr(memory.out, memory.out[0] == '/' ? '#' : '[', length);
    return number ? (size_t)(number - memory.out) : length;
}

static void show_memory(const struct call *call, long result) {
    struct stat *stat = &memory.stat;
    for (const char *letter = call->shape; *letter; letter++) {
        switch (*letter) {
        case 'o':
            fputc(':', output);
            if (call->number == SYS_getdents64) show_names(memory.out, result);
            // Asked for nothing, some calls say how much there is.
            else show(memory.out, (size_t)result <= asked ? named((size_t)result) : 0);
            break;
        case 's':
            fprintf(output, ":%o,%lu,%u,%u,%ld", stat->st_mode, (unsigned long)stat->st_nlink, stat->st_uid, stat->st_gid,
                    S_ISDIR(stat->st_mode) ? 0 : (long)stat->st_size);
            break;
        case 'x': fprintf(output, ":%o,%u,%u", memory.statx.stx_mode, memory.statx.stx_nlink, memory.statx.stx_uid); break;
        case 'q': fprintf(output, ":%d,%d", memory.pair[0], memory.pair[1]); break;
        case 'A': fputc(':', output); show_address(); break;
        case 'R': fprintf(output, ":%lx", memory.got); break;
        case 'l': fprintf(output, ":%lu", (unsigned long)memory.limit.rlim_cur); break;
        }
    }
}

// ---- calls --------------------------------------------------------------------------------------

static int is_ready(long descriptor, short events) {
    struct pollfd wanted = { (int)descriptor, events, 0 };
    return poll(&wanted, 1, 0) != 0;
}

// A FIFO is opened without waiting for its other side.
static void mind_fifo(const struct call *call, long *arguments) {
    int at = !strcmp(call->name, "openat") ? 1 : !strcmp(call->name, "open") ? 0 : -1;
    if (call->number == SYS_openat2) {
        if (arguments[2] == (long)&memory.how) memory.how.flags |= O_NONBLOCK;
        return;
    }
    if (at < 0) return;
    struct stat stat;
    const char *path = (const char *)arguments[at];
    int directory = at ? (int)arguments[0] : AT_FDCWD;
    if (path > (char *)1 && (*path ? !fstatat(directory, path, &stat, 0) : 0) && S_ISFIFO(stat.st_mode))
        arguments[at + 1] |= O_NONBLOCK;
}

static int would_wait(const struct call *call, const long *arguments) {
    if (call->in && !is_ready(arguments[call->in - 1], POLLIN)) return 1;
    if (call->out && !is_ready(arguments[call->out - 1], POLLOUT)) return 1;
    struct stat stat;
    // Locks of /dev/null are shared with every process on the machine.
    if (call->number == SYS_flock) return !fstat((int)arguments[0], &stat) && S_ISCHR(stat.st_mode);
    return !strcmp(call->name, "creat") && arguments[0] > 1 && !fstatat(AT_FDCWD, (const char *)arguments[0], &stat, 0)
        && !S_ISREG(stat.st_mode) && !S_ISDIR(stat.st_mode);
}

static void mind_socket(long descriptor) {
    struct timeval soon = { 2, 0 };
    setsockopt((int)descriptor, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
    setsockopt((int)descriptor, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
}

static uint64_t before;

static void make(char *line) {
    char *rest = NULL;
    const char *name = strtok_r(line, " ", &rest);
    const struct call *call = NULL;
    for (size_t at = 0; at < sizeof calls / sizeof *calls; at++) if (!strcmp(calls[at].name, name)) call = &calls[at];
    if (!call) {
        fprintf(output, "unknown ");
        return;
    }
    long arguments[12] = { 0 };
    int count = 0, texts = 0;
    memory.size = sizeof memory.address;
    for (const char *letter = call->shape; *letter; letter++) {
        switch (*letter) {
        case '0': arguments[count++] = 0; break;
        case '8': arguments[count++] = 8; break;
        case 's': arguments[count++] = (long)&memory.stat; break;
        case 'x': arguments[count++] = (long)&memory.statx; break;
        case 'q': arguments[count++] = (long)memory.pair; break;
        case 'l': arguments[count++] = (long)&memory.limit; break;
        case 'A': arguments[count++] = (long)&memory.address; arguments[count++] = (long)&memory.size; break;
        default: {
            char *word = strtok_r(NULL, " ", &rest);
            argument(*letter, word ? word : (char[]){ "0" }, arguments, &count, &texts);
        }
        }
    }
    mind_fifo(call, arguments);
    if (would_wait(call, arguments)) {
        fprintf(output, "waits ");
        fflush(output);
        return;
    }
    for (size_t at = 0; at < SIGNALS; at++) counts[at] = 0;
    errno = 0;
    long result = syscall(call->number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
    int error = errno;
    int is_link = !strncmp(call->name, "readlink", 8);
    if (result < 0 && result >= -4095) fprintf(output, "%s", strerrorname_np(error) ? strerrorname_np(error) : "?");
    else if (is_link && named((size_t)result) < (size_t)result) fprintf(output, "%zu", named((size_t)result));
    else fprintf(output, "%ld", call->number == SYS_getdents64 && result > 0 ? 1 : result);
    if (result >= 0) {
        show_memory(call, result);
        if (call->number == SYS_socket || call->number == SYS_accept4) mind_socket(result);
        if (call->number == SYS_socketpair) mind_socket(memory.pair[0]), mind_socket(memory.pair[1]);
    }
    for (size_t at = 0; at < SIGNALS; at++) if (counts[at]) fprintf(output, "!%s*%d", sigabbrev_np(handled[at]), counts[at]);
    uint64_t after = digest();
    if (after != before) fprintf(output, "~%016lx", after);
    before = after;
    fputc(' ', output);
    // The next call may be the last.
    fflush(output);
}

static void begin(const char *directory) {
    if ((size_t)snprintf(ground, sizeof ground, "%s", directory) >= sizeof ground) _exit(7);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = most_files;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
    umask(022);
    close_range(0, FIRST_OWN - 1, 0);
    for (int at = 0; at < 3; at++) if (open("/dev/null", at ? O_WRONLY : O_RDONLY) != at) _exit(4);
    struct sigaction action = { .sa_handler = handle };
    for (size_t at = 0; at < SIGNALS; at++) sigaction(handled[at], &action, NULL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (chdir(directory)) _exit(5);
    before = digest();
}

// Root without a sandbox owns /dev/null and all the rest: nothing but `directory` can be changed from here on.
static int keep_to(const char *directory) {
    struct mount_attr fixed = { .attr_set = MOUNT_ATTR_RDONLY }, free = { .attr_clr = MOUNT_ATTR_RDONLY };
    return unshare(CLONE_NEWNS) || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL)
        || mount(directory, directory, NULL, MS_BIND, NULL)
        || mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &fixed, sizeof fixed)
        || mount_setattr(AT_FDCWD, directory, 0, &free, sizeof free) || chdir(directory);
}

static int is_hosts_root(void) {
    char map[64] = { 0 };
    int file = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, map, sizeof map - 1) : -1;
    if (file >= 0) close(file);
    return !geteuid() && (length < 0 || strstr(map, "4294967295"));
}

int main(int count, char **words) {
    static char line[1 << 14];
    // The same rights in a sandbox and without: none but those of the user.
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct none[2] = { { 0 } };
    if (count > 1 ? keep_to(words[1]) : is_hosts_root()) return 6;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_capset, &header, none)) return 3;
    input = fdopen(fcntl(0, F_DUPFD_CLOEXEC, FIRST_OWN), "r");
    output = fdopen(fcntl(1, F_DUPFD_CLOEXEC, FIRST_OWN), "w");
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    most_files = limit.rlim_cur < 1024 ? limit.rlim_cur : 1024;
    struct sigaction action = { .sa_handler = handle };
    sigaction(SIGUSR1, &action, NULL);
    syscall(SYS_rt_sigaction, SIGUSR1, NULL, &usual, 8);
    if (!input || !output) return 2;
    while (fgets(line, sizeof line, input)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "begin ", 6)) begin(line + 6);
        else if (!strcmp(line, "sync")) {
            fputc('\n', output);
            fflush(output);
        } else make(line);
    }
    return 0;
}
