/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Starts a sandbox with descriptors of given numbers, and looks around in it. Linked statically, because it must run in
 * an empty tree.
 *
 *   caller launch SPEC... -- PROGRAM ARGUMENT0 ARGUMENT...
 *
 * executes PROGRAM. A SPEC is a number and, without a space:
 *
 *   <PATH  the file, for reading      >PATH  a new file, for writing
 *   /PATH  the file or directory      |TEXT  a pipe that holds TEXT and has no writer
 *
 *   caller look PATH...
 *
 * prints what a process in the sandbox sees, one fact a line: `NAME VALUE`. Descriptor 200 is the host's /proc, which
 * the sandbox need not have. Bytes that aren't printable are `\xHH`.
 *
 *   caller exit CODE        caller kill SIGNAL
 *
 * ends so.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PROC 200
extern char **environ;

static void put(int fd, int number)
{
    if (fd < 0) err(99, "descriptor %d", number);
    if (fd == number) return;
    if (dup2(fd, number) < 0) err(99, "dup2 %d", number);
    close(fd);
}

static void prepare(const char *spec)
{
    char *rest;
    int number = strtol(spec, &rest, 10);
    const char *value = rest + 1;
    int ends[2];
    switch (*rest) {
    case '<': put(open(value, O_RDONLY), number); break;
    case '>': put(open(value, O_WRONLY | O_CREAT | O_TRUNC, 0600), number); break;
    case '/': put(open(rest, O_PATH), number); break;
    case '|':
        if (pipe(ends) || write(ends[1], value, strlen(value)) < 0) err(99, "pipe");
        close(ends[1]);
        put(ends[0], number);
        break;
    default: errx(99, "not a descriptor: %s", spec);
    }
}

static int launch(char **words)
{
    umask(022);
    for (; *words && strcmp(*words, "--"); words++) prepare(*words);
    if (!*words || !words[1] || !words[2]) errx(99, "no program");
    execv(words[1], words + 2);
    err(99, "%s", words[1]);
}

static void escaped(const char *text, size_t length)
{
    for (; length--; text++) {
        unsigned char byte = *text;
        if (byte < 32 || byte > 126 || byte == '\\') printf("\\x%02x", byte);
        else putchar(byte);
    }
}

static void fact(const char *name, const char *value)
{
    printf("%s ", name);
    escaped(value, strlen(value));
    putchar('\n');
}

static char *slurp(const char *path)
{
    static char text[1 << 20];
    int fd = openat(PROC, path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    ssize_t got;
    if (fd < 0) return NULL;
    while (length < sizeof text - 1 && (got = read(fd, text + length, sizeof text - 1 - length)) > 0) length += got;
    close(fd);
    text[length] = 0;
    return text;
}

/* Each line of a file of /proc, behind a name; with `wanted` only those that begin with one of its words. */
static void lines(const char *name, const char *path, const char **wanted)
{
    char *text = slurp(path);
    if (!text) {
        fact(name, strerror(errno));
        return;
    }
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        int is_wanted = !wanted;
        for (const char **word = wanted; word && *word; word++)
            is_wanted |= !strncmp(line, *word, strlen(*word)) && line[strlen(*word)] == ':';
        if (is_wanted) fact(name, line);
    }
}

static void descriptors(void)
{
    int directory = openat(PROC, "self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int number = 0; number < 256; number++) {
        char path[32], target[4097], name[32];
        if (number == directory || number == PROC) continue;
        snprintf(path, sizeof path, "%d", number);
        ssize_t length = readlinkat(directory, path, target, sizeof target - 1);
        if (length < 0) continue;
        target[length] = 0;
        snprintf(name, sizeof name, "fd-%d %d", number, fcntl(number, F_GETFD));
        fact(name, target);
    }
    close(directory);
}

static void namespaces(void)
{
    static const char *names[] = {"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"};
    for (size_t at = 0; at < sizeof names / sizeof *names; at++) {
        char path[64], target[64] = "?", name[64];
        snprintf(path, sizeof path, "self/ns/%s", names[at]);
        if (readlinkat(PROC, path, target, sizeof target - 1) < 0) strcpy(target, strerror(errno));
        snprintf(name, sizeof name, "namespace-%s", names[at]);
        fact(name, target);
    }
}

/* The processes above, as long as they are of the launcher. */
static void family(void)
{
    char path[64] = "self/stat", text[256] = "";
    for (int depth = 0; depth < 8; depth++) {
        char *stat = slurp(path), *comm = stat ? strchr(stat, '(') : NULL, *end = stat ? strrchr(stat, ')') : NULL;
        int parent, group, session;
        if (!end || sscanf(end + 2, "%*c %d %d %d", &parent, &group, &session) != 3) break;
        if (depth == 0) printf("family %d %d %d %d\n", atoi(stat), parent, group, session);
        else if (!strncmp(comm, "(bwrap)", 7)) strcat(text, "bwrap ");
        else break;
        snprintf(path, sizeof path, "%d/stat", parent);
    }
    fact("ancestors", text);
}

/* Whether others may change the directory meanwhile: it is the kernel's, or the host's. */
static int is_busy(const char *path)
{
    static const char *names[] = {"tmp", "run", "dev", "home", "var", "root", "mnt", "opt", "sys", "pts", "shm", "proc", "etc", "usr", "boot"};
    struct statfs found;
    const char *name = strrchr(path, '/');
    if (statfs(path, &found) || found.f_type == PROC_SUPER_MAGIC) return 1;
    if (!(found.f_flags & ST_RDONLY) || !name) return 0;
    for (size_t at = 0; at < sizeof names / sizeof *names; at++)
        if (!strcmp(name + 1, names[at])) return 1;
    return 0;
}

static void look_at(const char *path, int depth)
{
    struct stat found;
    printf("path ");
    escaped(path, strlen(path));
    if (lstat(path, &found)) {
        printf("\t%s\n", strerror(errno));
        return;
    }
    printf("\t%06o %d:%d", found.st_mode, found.st_uid, found.st_gid);
    if (S_ISCHR(found.st_mode)) printf(" device %d:%d", major(found.st_rdev), minor(found.st_rdev));
    if (S_ISLNK(found.st_mode)) {
        char target[4097];
        ssize_t length = readlink(path, target, sizeof target);
        printf(" -> ");
        escaped(target, length < 0 ? 0 : length);
    }
    printf(" writable: %s", access(path, W_OK) ? strerror(errno) : "yes");
    /* Files of the kernel have no size. */
    if (S_ISREG(found.st_mode) && found.st_size > 0 && found.st_size <= 200) {
        char content[200];
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t length = fd < 0 ? -1 : read(fd, content, sizeof content);
        printf(" content: ");
        escaped(length < 0 ? strerror(errno) : content, length < 0 ? strlen(strerror(errno)) : (size_t)length);
        if (fd >= 0) close(fd);
    } else if (S_ISREG(found.st_mode)) {
        printf(" size %lld", (long long)found.st_size);
    }
    putchar('\n');
    if (!S_ISDIR(found.st_mode) || depth == 0 || is_busy(path)) return;
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    for (int at = 0; at < count && count < 60; at++) {
        char below[8192];
        if (!strcmp(entries[at]->d_name, ".") || !strcmp(entries[at]->d_name, "..")) continue;
        snprintf(below, sizeof below, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", entries[at]->d_name);
        look_at(below, depth - 1);
    }
    if (count < 0) printf("list %s\t%s\n", path, strerror(errno));
}

static int look(char **words, const char *name)
{
    static const char *status[] = {"Uid",    "Gid",    "Groups", "NSpid",  "SigBlk", "SigIgn",     "SigCgt",  "CapInh",
                                   "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters", NULL};
    char text[8192];
    struct utsname host;
    mode_t mask = umask(0);
    int signal = 0;
    fact("argument-0", name);
    fact("directory", getcwd(text, sizeof text) ? text : strerror(errno));
    printf("umask %03o\n", mask);
    for (char **variable = environ; *variable; variable++) fact("variable", *variable);
    printf("numbers %d %d %d %d %d %d\n", getpid(), getppid(), getpgrp(), getsid(0), getuid(), getgid());
    prctl(PR_GET_PDEATHSIG, &signal);
    printf("process death-signal %d dumpable %d securebits %d\n", signal, prctl(PR_GET_DUMPABLE), prctl(PR_GET_SECUREBITS));
    uname(&host);
    fact("host", host.nodename);
    lines("status", "self/status", status);
    lines("uid-map", "self/uid_map", NULL);
    lines("gid-map", "self/gid_map", NULL);
    lines("groups", "self/setgroups", NULL);
    lines("mount", "self/mountinfo", NULL);
    namespaces();
    family();
    descriptors();
    for (; *words; words++) look_at(*words, strcmp(*words, "/") ? 2 : 1);
    return 0;
}

int main(int count, char **words)
{
    if (count < 2) errx(99, "launch, look, exit, or kill");
    if (!strcmp(words[1], "launch")) return launch(words + 2);
    if (!strcmp(words[1], "look")) return look(words + 2, words[0]);
    if (!strcmp(words[1], "exit") && words[2]) return atoi(words[2]);
    if (!strcmp(words[1], "kill") && words[2]) return raise(atoi(words[2]));
    errx(99, "%s", words[1]);
}
