// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Makes the calls that its input names, one a line, and answers `sync` with their results: one number each, 0 or errno.
//
//   begin DIRECTORY        a new sequence: no kept descriptors, this working directory
//   open SLOT FLAGS PATH   SLOT `-`: a writable file gets the mark and is closed; else the descriptor is kept there
//   look LINE ROOT...      reads every file below, prints the first word of each on a line of its own and then a dot, adds
//                          LINE to every writable file, and makes a file `made` in every directory
//   race FIRST SECOND      exchanges them again and again; `halt` ends that
//   PREFIX CALL            `|` in another thread; `+` in another thread, beside the next call;
//                          `~DIRECTORY` in a thread that has this working directory for itself
//
// A path that begins with `N:` is relative to the descriptor in slot N; `#N` stands for /proc/self/fd/ of that one.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOTS 4
#define WORDS 6
#define LONGEST 8192
static const char mark[] = "[core]\n\tfsmonitor = evil\n";
static int slots[SLOTS] = { -1, -1, -1, -1 };

struct path { int directory; char text[LONGEST]; };

static int slot(const char *word) { return slots[(unsigned)(word[0] - '0') % SLOTS]; }

static void read_path(struct path *path, const char *word) {
    path->directory = AT_FDCWD;
    if (word[0] >= '0' && word[0] < '0' + SLOTS && word[1] == ':') {
        path->directory = slot(word);
        word += 2;
    }
    if (word[0] == '#') snprintf(path->text, sizeof path->text, "/proc/self/fd/%d%s", slot(word + 1), word + 2);
    else snprintf(path->text, sizeof path->text, "%s", word);
}

static int has(const char *flags, char flag) { return strchr(flags, flag) != NULL; }

static int open_flags(const char *flags) {
    int value = O_CLOEXEC;
    value |= has(flags, 'w') ? O_WRONLY : has(flags, '+') ? O_RDWR : has(flags, 'o') ? O_PATH : O_RDONLY;
    if (has(flags, 'c')) value |= O_CREAT;
    if (has(flags, 'x')) value |= O_EXCL;
    if (has(flags, 't')) value |= O_TRUNC;
    if (has(flags, 'a')) value |= O_APPEND;
    if (has(flags, 'n')) value |= O_NOFOLLOW;
    if (has(flags, 'd')) value |= O_DIRECTORY;
    if (has(flags, 'p')) value |= O_TMPFILE;
    return value;
}

static long put_mark(int descriptor) {
    return write(descriptor, mark, sizeof mark - 1) < 0 ? -1 : 0;
}

// What a call that opens leaves: a kept descriptor, or a file with the mark in it.
static long opened(int descriptor, const char *where, int writable) {
    if (descriptor < 0) return -1;
    long result = writable ? put_mark(descriptor) : 0;
    if (where[0] == '-') close(descriptor);
    else {
        int *kept = &slots[(unsigned)(where[0] - '0') % SLOTS];
        if (*kept >= 0) close(*kept);
        *kept = descriptor;
    }
    return result;
}

static long open_it(char **word) {
    struct path path;
    read_path(&path, word[3]);
    int flags = open_flags(word[2]), at = path.directory, made = -1;
    // A kept descriptor is written to later, by another call.
    int writable = word[1][0] == '-' && (flags & O_ACCMODE) != O_RDONLY && !(flags & O_PATH);
    if (!strcmp(word[0], "openat2")) {
        struct open_how how = { .flags = (unsigned)flags, .mode = flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? 0644 : 0 };
        made = (int)syscall(SYS_openat2, at, path.text, &how, sizeof how);
#ifdef SYS_creat
    } else if (!strcmp(word[0], "creat") && at == AT_FDCWD) {
        made = (int)syscall(SYS_creat, path.text, 0644);
#endif
#ifdef SYS_open
    } else if (!strcmp(word[0], "open") && at == AT_FDCWD) {
        made = (int)syscall(SYS_open, path.text, flags, 0644);
#endif
    } else {
        made = (int)syscall(SYS_openat, at, path.text, flags, 0644);
    }
    return opened(made, word[1], writable);
}

static long rename_it(const char *call, struct path *from, struct path *to) {
#ifdef SYS_rename
    if (!strcmp(call, "rename") && from->directory == AT_FDCWD && to->directory == AT_FDCWD)
        return syscall(SYS_rename, from->text, to->text);
#endif
    unsigned flags = !strcmp(call, "noreplace") ? 1 : !strcmp(call, "exchange") ? 2 : !strcmp(call, "whiteout") ? 4 : 0;
#ifdef SYS_renameat
    if (!flags) return syscall(SYS_renameat, from->directory, from->text, to->directory, to->text);
#endif
    return syscall(SYS_renameat2, from->directory, from->text, to->directory, to->text, flags);
}

static long two_paths(char **word) {
    const char *call = word[0];
    struct path from, to;
    read_path(&from, word[1]);
    read_path(&to, word[2]);
    if (!strcmp(call, "symlinkat")) return symlinkat(word[1], to.directory, to.text);
    if (!strcmp(call, "symlink")) {
#ifdef SYS_symlink
        if (to.directory == AT_FDCWD) return syscall(SYS_symlink, word[1], to.text);
#endif
        return symlinkat(word[1], to.directory, to.text);
    }
    if (!strcmp(call, "link")) {
#ifdef SYS_link
        if (from.directory == AT_FDCWD && to.directory == AT_FDCWD) return syscall(SYS_link, from.text, to.text);
#endif
        return linkat(from.directory, from.text, to.directory, to.text, 0);
    }
    if (!strcmp(call, "linkat")) return linkat(from.directory, from.text, to.directory, to.text, 0);
    if (!strcmp(call, "linkfollow"))
        return linkat(from.directory, from.text, to.directory, to.text, AT_SYMLINK_FOLLOW);
    if (!strcmp(call, "linkfd")) return linkat(slot(word[1]), "", to.directory, to.text, AT_EMPTY_PATH);
    return rename_it(call, &from, &to);
}

static long one_path(char **word) {
    const char *call = word[0];
    struct path path;
    read_path(&path, word[1]);
    int at = path.directory;
    const char *text = path.text;
    if (!strcmp(call, "mkdirat")) return mkdirat(at, text, 0755);
    if (!strcmp(call, "mknodat")) return mknodat(at, text, S_IFREG | 0644, 0);
    if (!strcmp(call, "unlinkat")) return unlinkat(at, text, 0);
    if (!strcmp(call, "removedir")) return unlinkat(at, text, AT_REMOVEDIR);
    if (!strcmp(call, "chdir")) return at == AT_FDCWD ? chdir(text) : -1;
#ifdef SYS_mkdir
    if (at == AT_FDCWD) {
        if (!strcmp(call, "mkdir")) return syscall(SYS_mkdir, text, 0755);
        if (!strcmp(call, "mknod")) return syscall(SYS_mknod, text, S_IFREG | 0644, 0);
        if (!strcmp(call, "unlink")) return syscall(SYS_unlink, text);
        if (!strcmp(call, "rmdir")) return syscall(SYS_rmdir, text);
    }
#endif
    if (!strcmp(call, "truncate")) return truncate(text, 0);
    if (!strcmp(call, "mkdir")) return mkdirat(at, text, 0755);
    if (!strcmp(call, "mknod")) return mknodat(at, text, S_IFREG | 0644, 0);
    if (!strcmp(call, "unlink")) return unlinkat(at, text, 0);
    if (!strcmp(call, "rmdir")) return unlinkat(at, text, AT_REMOVEDIR);
    errno = EINVAL;
    return -1;
}

static int make(char *line) {
    char *word[WORDS] = { 0 }, *rest = NULL;
    int count = 0;
    for (char *next = strtok_r(line, " ", &rest); next && count < WORDS; next = strtok_r(NULL, " ", &rest))
        word[count++] = next;
    long result = -1;
    errno = EINVAL;
    const char *call = word[0];
    if (count == 4) result = open_it(word);
    else if (count == 3) result = two_paths(word);
    else if (count == 2 && !strcmp(call, "write")) result = put_mark(slot(word[1]));
    else if (count == 2 && !strcmp(call, "ftruncate")) result = ftruncate(slot(word[1]), 0);
    else if (count == 2 && !strcmp(call, "fchdir")) result = fchdir(slot(word[1]));
    else if (count == 2) result = one_path(word);
    return result < 0 ? errno : 0;
}

static void look_at(const char *path, const char *line) {
    char text[256] = { 0 };
    // Without O_NONBLOCK, opening a FIFO would wait for a writer.
    int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file >= 0 && read(file, text, sizeof text - 1) > 0) {
        text[strcspn(text, " \n")] = 0;
        printf("%s\n", text);
    }
    if (file >= 0) close(file);
    file = open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC);
    if (file >= 0 && dprintf(file, "%s\n", line) < 0) perror(path);
    if (file >= 0) close(file);
}

static void look(const char *path, const char *line, int depth) {
    struct stat stat;
    DIR *directory = lstat(path, &stat) || !S_ISDIR(stat.st_mode) || depth > 12 ? NULL : opendir(path);
    if (!directory) {
        look_at(path, line);
        return;
    }
    char below[LONGEST];
    snprintf(below, sizeof below, "%s/made", path);
    int made = open(below, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (made >= 0) close(made);
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (snprintf(below, sizeof below, "%s/%s", path, entry->d_name) < LONGEST) look(below, line, depth + 1);
    }
    closedir(directory);
}

// Two names that a thread exchanges until `halt`.
struct race { char *line; atomic_int over; pthread_t thread; };

static void *exchange(void *given) {
    struct race *race = given;
    char *word[WORDS] = { 0 }, *rest = NULL;
    for (int each = 0; each < 3; each++) word[each] = strtok_r(each ? NULL : race->line, " ", &rest);
    struct path first, second;
    read_path(&first, word[1]);
    read_path(&second, word[2]);
    while (!race->over) rename_it("exchange", &first, &second);
    return NULL;
}

// A call that another thread makes.
struct job { char *directory; char line[LONGEST]; int result; pthread_t thread; };

static void *run(void *given) {
    struct job *job = given;
    if (job->directory && (unshare(CLONE_FS) || chdir(job->directory))) job->result = errno;
    else job->result = make(job->line);
    return NULL;
}

static void start(struct job *job) {
    if (pthread_create(&job->thread, NULL, run, job)) exit(3);
}

static void begin(const char *directory) {
    for (int each = 0; each < SLOTS; each++) {
        if (slots[each] >= 0) close(slots[each]);
        slots[each] = -1;
    }
    if (chdir(directory)) exit(4);
}

int main(void) {
    static char line[LONGEST], results[1 << 16];
    static struct job job, beside;
    static struct race race;
    size_t length = 0;
    int pending = 0;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        int result = 0;
        if (!strcmp(line, "sync")) {
            if (pending) pthread_join(beside.thread, NULL);
            pending = 0;
            printf("%.*s\n", (int)length, results);
            fflush(stdout);
            length = 0;
            continue;
        }
        if (!strncmp(line, "look ", 5)) {
            char *rest = NULL;
            const char *text = strtok_r(line + 5, " ", &rest);
            for (const char *root; text && (root = strtok_r(NULL, " ", &rest));) look(root, text, 0);
            printf(".\n");
            fflush(stdout);
            continue;
        }
        if (!strncmp(line, "race ", 5)) {
            race.line = strdup(line);
            if (!race.line || pthread_create(&race.thread, NULL, exchange, &race)) return 6;
            continue;
        }
        if (!strcmp(line, "halt")) {
            race.over = 1;
            pthread_join(race.thread, NULL);
            continue;
        }
        if (!strncmp(line, "begin ", 6)) {
            begin(line + 6);
            continue;
        }
        if (line[0] == '+') {
            if (pending) pthread_join(beside.thread, NULL);
            snprintf(beside.line, sizeof beside.line, "%s", line + 1);
            start(&beside);
            pending = 1;
        } else if (line[0] == '|' || line[0] == '~') {
            char *text = line + 1;
            job.directory = NULL;
            if (line[0] == '~') {
                char *space = strchr(text, ' ');
                if (!space) return 5;
                *space = 0;
                job.directory = text;
                text = space + 1;
            }
            snprintf(job.line, sizeof job.line, "%s", text);
            start(&job);
            pthread_join(job.thread, NULL);
            result = job.result;
        } else {
            result = make(line);
        }
        if (pending && line[0] != '+') {
            pthread_join(beside.thread, NULL);
            pending = 0;
        }
        if (length + 8 < sizeof results)
            length += (size_t)snprintf(results + length, sizeof results - length, "%d ", result);
    }
    return 0;
}
