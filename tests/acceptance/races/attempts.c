// SPDX-License-Identifier: Apache-2.0 OR MIT
// The calls that swap.c makes on names that are swapped meanwhile.
//
// After each that was granted, what it did is undone in free/ alone, by that directory's descriptor: if
// there is nothing to undo there, it was done to .git, where it stays for the host to see.
#define _GNU_SOURCE
#include "swap.h"
#include <sys/socket.h>
#include <sys/un.h>

static int base(void) { return mode == DESCRIPTOR ? SWAPPED : AT_FDCWD; }

// Whether it is this one's turn to be named from the root on; for a while, so that all calls are.
static int by_whole_path(const struct worker *worker) { return worker->turn / 32 & 1; }

// The path of what is hooks/… or info in the directory that is swapped, in this thread's own memory.
static const char *contested(struct worker *worker, const char *rest) {
    char *path = worker->path;
    const char *name = strncmp(rest, "hooks/", 6) ? rest : rest + 6;
    size_t size = sizeof worker->path;
    switch (mode) {
    case DESCRIPTOR:
    case CWD: snprintf(path, size, "%s", name); break;
    case MAGIC:
        if (worker->turn & 1) snprintf(path, size, "/proc/self/fd/%d/%s", SWAPPED, name);
        else snprintf(path, size, "/proc/%d/fd/%d/%s", getpid(), SWAPPED, name);
        break;
    default: // but for the first four bytes, which the flipper may be writing
        snprintf(path + 4, size - 4, "/%s", rest);
        snprintf(worker->swapped + 4, 64, "/%s", rest);
        if (mode != MEMORY) {
            memcpy(path, mode == LINK ? "link" : "free", 4);
            memcpy(worker->swapped, path, 4);
        }
        if (by_whole_path(worker)) return worker->whole;
    }
    return path;
}
static const char *in_hooks(struct worker *worker, const char *name) {
    char rest[64];
    snprintf(rest, sizeof rest, "hooks/%s", name);
    return contested(worker, rest);
}
// What is there in both, for calls that follow links in the last place.
static const char *existing(struct worker *worker) {
    if (mode == LINK && worker->turn & 1) return by_whole_path(worker) ? worker->leaf : "leaf";
    return in_hooks(worker, PRESENT);
}

static ino_t inode(int directory, const char *name) {
    struct stat seen;
    return fstatat(directory, name, &seen, AT_SYMLINK_NOFOLLOW) ? 0 : seen.st_ino;
}
static void append(int fd) {
    if (write(fd, "mine\n", 5)) {}
    close(fd);
}

// A file of this thread's own.
static const char *own(struct worker *worker) {
    if (!worker->has_own) close(must(open(worker->own, O_WRONLY | O_CREAT, 0644), worker->own));
    worker->has_own = 1;
    return worker->own;
}

// The new name has been made, in one directory or the other.
static void made(struct worker *worker, int flags) {
    // Modes are looked at when all is over.
    settle(mode == UMASK || unlinkat(free_hooks, worker->name, flags) == 0);
}

static void create(struct worker *worker) {
    int fd = openat(base(), in_hooks(worker, worker->name), O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (judged(fd)) append(fd), made(worker, 0);
}
static void make_directory(struct worker *worker) {
    if (judged(mkdirat(base(), in_hooks(worker, worker->name), 0777))) made(worker, AT_REMOVEDIR);
}
static void rename_to(struct worker *worker) {
    const char *mine = own(worker);
    if (!judged(renameat(AT_FDCWD, mine, base(), in_hooks(worker, worker->name)))) return;
    worker->has_own = 0;
    made(worker, 0);
}
static void link_to(struct worker *worker) {
    const char *mine = own(worker);
    if (judged(linkat(AT_FDCWD, mine, base(), in_hooks(worker, worker->name), 0))) made(worker, 0);
}
static void make_link(struct worker *worker) {
    if (judged(symlinkat("mine", base(), in_hooks(worker, worker->name)))) made(worker, 0);
}
static void make_fifo(struct worker *worker) {
    if (judged(mknodat(base(), in_hooks(worker, worker->name), S_IFIFO | 0644, 0))) made(worker, 0);
}
static void bind_socket(struct worker *worker) {
    int fd = must(socket(AF_UNIX, SOCK_STREAM, 0), "socket");
    in_hooks(worker, worker->name);
    worker->family = AF_UNIX;
    if (judged(bind(fd, (const struct sockaddr *)(const void *)&worker->family, sizeof(struct sockaddr_un))))
        made(worker, 0);
    close(fd);
}

static void open_to_append(struct worker *worker) {
    int fd = openat(base(), existing(worker), O_WRONLY | O_APPEND);
    struct stat seen;
    if (!judged(fd)) return;
    must(fstat(fd, &seen), "fstat");
    settle(seen.st_ino == inode(free_hooks, PRESENT));
    append(fd);
}
static void open_truncating(struct worker *worker) {
    int fd = openat(base(), existing(worker), O_RDONLY | O_TRUNC);
    if (!judged(fd)) return;
    close(fd);
    settle(unchanged());
}
static void truncate_it(struct worker *worker) {
    if (judged(truncate(existing(worker), 1))) settle(unchanged());
}
static void change_mode(struct worker *worker) {
    if (judged(fchmodat(base(), existing(worker), 0600, 0))) settle(unchanged());
}
static void set_attribute(struct worker *worker) {
    if (judged(setxattr(existing(worker), ATTRIBUTE, "mine", 4, 0))) settle(unchanged());
}
// Out of it, then write by the other name.
static void link_out(struct worker *worker) {
    unlink(worker->away);
    if (!judged(linkat(base(), existing(worker), AT_FDCWD, worker->away, AT_SYMLINK_FOLLOW))) return;
    settle(inode(AT_FDCWD, worker->away) == inode(free_hooks, PRESENT));
    append(open(worker->away, O_WRONLY | O_APPEND));
    unlink(worker->away);
}

static void remove_it(struct worker *worker) {
    if (!judged(unlinkat(base(), in_hooks(worker, worker->doomed), 0))) return;
    int fd = openat(free_hooks, worker->doomed, O_WRONLY | O_CREAT | O_EXCL, 0644);
    settle(fd >= 0);
    if (fd >= 0) close(fd);
}
// Puts back what was moved to `away`, where free/ lacks it.
static void put_back(struct worker *worker, int directory, const char *name) {
    settle(syscall(SYS_renameat2, AT_FDCWD, worker->away, directory, name, 1) == 0);
}
static void rename_away(struct worker *worker) {
    if (judged(renameat(base(), in_hooks(worker, worker->doomed), AT_FDCWD, worker->away)))
        put_back(worker, free_hooks, worker->doomed);
}
static void exchange(struct worker *worker) {
    const char *mine = own(worker);
    ino_t before = inode(AT_FDCWD, mine);
    if (judged(syscall(SYS_renameat2, AT_FDCWD, mine, base(), in_hooks(worker, worker->doomed), 2)))
        settle(inode(free_hooks, worker->doomed) == before);
}
// A directory that holds a protected name: what is in it would be elsewhere with it.
static void rename_holder(struct worker *worker) {
    unlink(worker->away);
    if (judged(rename(contested(worker, "info"), worker->away))) put_back(worker, free_top, "info");
}

// Moves a directory with hooks in it to free, or to .git, in a directory of its own.
static void move_in(struct worker *worker) {
    char built[3200], home[3200], path[3300];
    snprintf(built, sizeof built, "%s/spare/built-%d", top, worker->number);
    snprintf(home, sizeof home, "%s/spare/home-%d", top, worker->number);
    if (!worker->has_built) {
        mkdir(home, 0755);
        must(mkdir(built, 0755), built);
        snprintf(path, sizeof path, "%s/hooks", built);
        must(mkdir(path, 0755), path);
        snprintf(path, sizeof path, "%s/hooks/post-commit", built);
        close(must(open(path, O_WRONLY | O_CREAT | O_EXCL, 0755), path));
    }
    worker->has_built = 1;
    int directory = must(open(home, O_RDONLY | O_DIRECTORY), home);
    memset(worker->path + 4, 0, 1);
    if (judged(renameat(AT_FDCWD, built, directory, worker->path))) {
        worker->has_built = 0;
        settle(unlinkat(directory, "free/hooks/post-commit", 0) == 0);
        unlinkat(directory, "free/hooks", AT_REMOVEDIR);
        unlinkat(directory, "free", AT_REMOVEDIR);
    }
    close(directory);
}

// Where Mercurial's settings would lie in a directory only a file may go.
static void put_at_holder(struct worker *worker) {
    char target[3300];
    struct stat there;
    int fd = open(worker->box, O_WRONLY | O_CREAT, 0644); // it is a directory in between
    if (fd >= 0) close(fd);
    snprintf(target, sizeof target, "%s/.hg", worker->trusted);
    if (!judged(rename(worker->box, target))) return;
    settle(lstat(target, &there) == 0 && S_ISREG(there.st_mode) && unlink(target) == 0);
}

// Where one of the host's was, for people and editors to trust, only what brings nothing protected may go.
static void put_in_place(struct worker *worker) {
    if (mode == SOURCE) {
        put_at_holder(worker);
        return;
    }
    mkdir(worker->box, 0755); // it is there if the last attempt was refused
    int fd = open(worker->box, O_PATH | O_DIRECTORY);
    if (fd >= 0) must(dup2(fd, SWAPPED + 1 + worker->number), "dup2"), close(fd);
    if (judged(rename(worker->box, worker->trusted))) settle(rmdir(worker->trusted) == 0);
}

static void save_config(struct worker *worker) {
    char text[1024] = "";
    int fd = must(open(worker->own, O_RDWR | O_CREAT | O_TRUNC, 0644), worker->own);
    if (write(fd, CONFIG HARMLESS, strlen(CONFIG HARMLESS)) < 0) die(worker->own);
    must(dup2(fd, SWAPPED + 1 + worker->number), "dup2");
    close(fd);
    unsigned exchanging = worker->turn % 8 == 7 ? 2 : 0;
    if (!judged(syscall(SYS_renameat2, AT_FDCWD, worker->own, AT_FDCWD, ".git/config", exchanging))) return;
    fd = must(open(".git/config", O_RDONLY), ".git/config");
    if (read(fd, text, sizeof text - 1) < 0) die(".git/config");
    close(fd);
    int is_harmless = !strstr(text, "fsmonitor");
    settle(is_harmless);
    if (!is_harmless) stop(); // nobody is to overwrite it
}

int is_born(void) { return access("nest/refs", F_OK) == 0; }

// Hooks by names of this thread's own, which nobody else removes: as long as one is there, nothing may make a
// repository of the directory it is in.
static void plant(struct worker *worker) {
    char path[3200];
    snprintf(path, sizeof path, "nest/hooks/%s", worker->name);
    long result = 0;
    switch (worker->turn % 3) {
    case 0: result = open(path, O_WRONLY | O_CREAT | O_EXCL, 0755); break;
    case 1: result = rename(own(worker), path); break;
    default: result = symlink("../../spare", path);
    }
    if (!judged(result)) return;
    if (worker->turn % 3 == 0) close((int)result);
    if (worker->turn % 3 == 1) worker->has_own = 0;
    settle(!is_born());
    unlink(path);
}
// And settings, which the first thread alone writes.
static void configure(struct worker *worker) {
    char text[1024] = "";
    if (worker->number) return plant(worker);
    int fd = open("nest/config", O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (!judged(fd)) return;
    if (write(fd, EVIL, strlen(EVIL)) < 0) die("nest/config");
    close(fd);
    // Looked at before the text: whoever makes a repository meanwhile has the file replaced by a harmless one first.
    int born = is_born();
    fd = open("nest/config", O_RDONLY);
    // A repository's when it was opened: what was in it when it was closed is judged, and the file isn't there.
    if (fd < 0 && errno == ENOENT) {
        errno = EACCES;
        (void)judged(fd);
        return;
    }
    must(fd, "nest/config");
    if (read(fd, text, sizeof text - 1) < 0) die("nest/config");
    close(fd);
    settle(!strstr(text, "fsmonitor") || !born);
    unlink("nest/config");
}

#define IN(mode) (1u << (mode))
enum {
    BY_NAME = IN(MEMORY) | IN(DIRECTORY) | IN(LINK),
    WITHOUT_AT = BY_NAME | IN(MAGIC) | IN(CWD), // calls that take no directory's descriptor
    ANYWHERE = WITHOUT_AT | IN(DESCRIPTOR),
};
static const struct { const char *name; void (*run)(struct worker *); unsigned modes; } calls[] = {
    {"create", create, ANYWHERE | IN(UMASK)}, {"mkdir", make_directory, ANYWHERE | IN(UMASK)},
    {"rename", rename_to, ANYWHERE}, {"link", link_to, ANYWHERE}, {"symlink", make_link, ANYWHERE},
    {"mknod", make_fifo, ANYWHERE}, {"bind", bind_socket, WITHOUT_AT}, {"append", open_to_append, ANYWHERE},
    {"empty", open_truncating, ANYWHERE}, {"truncate", truncate_it, WITHOUT_AT},
    {"chmod", change_mode, ANYWHERE}, {"setxattr", set_attribute, WITHOUT_AT}, {"out", link_out, ANYWHERE},
    {"unlink", remove_it, ANYWHERE}, {"away", rename_away, ANYWHERE}, {"exchange", exchange, ANYWHERE},
    {"holder", rename_holder, BY_NAME}, {"in", move_in, IN(MEMORY)},
    {"place", put_in_place, IN(TREE) | IN(SOURCE)}, {"save", save_config, IN(CONTENT)}, {"plant", plant, IN(BORN)},
    {"configure", configure, IN(BORN)}};
enum { CALLS = sizeof calls / sizeof *calls };

void attempt(struct worker *worker) {
    static _Thread_local unsigned next;
    while (!(calls[next % CALLS].modes & IN(mode))) next++;
    unsigned call = next++ % CALLS;
    // Found where it shouldn't be, it says by what.
    snprintf(worker->name, sizeof worker->name, "%s-%d-%d", calls[call].name, worker->number, worker->turn);
    long before = wrongs();
    calls[call].run(worker);
    if (wrongs() != before && before < 8) printf("wrong: %s\n", calls[call].name);
}

void equip(struct worker *worker, int number) {
    worker->number = number;
    memcpy(worker->path, "free", 4);
    // The four bytes are written as a word.
    size_t before = strlen(top) + 1;
    worker->whole = worker->room + (4 - before % 4) % 4;
    worker->swapped = worker->whole + before;
    snprintf(worker->whole, before + 5, "%s/free", top);
    snprintf(worker->leaf, sizeof worker->leaf, "%s/leaf", top);
    snprintf(worker->doomed, sizeof worker->doomed, "doomed-%d", number);
    const struct { char *path; const char *name; } names[] = {
        {worker->own, "own"}, {worker->away, "away"}, {worker->box, "box"}, {worker->good, "good"},
        {worker->bad, "bad"}};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        snprintf(names[i].path, sizeof worker->own, "%s/spare/%s-%d", top, names[i].name, number);
    snprintf(worker->trusted, sizeof worker->trusted, "%s/trusted-%d", top, number);
    if (mode == TREE) must(rename(worker->trusted, worker->away), worker->trusted);
    if (mode != SOURCE) return;
    char inner[3300];
    snprintf(inner, sizeof inner, "%s/hgrc", worker->bad);
    must(mkdir(worker->bad, 0755), worker->bad);
    close(must(open(inner, O_WRONLY | O_CREAT, 0644), inner));
}

void clear(struct worker *worker) {
    const char *const names[] = {worker->box, worker->good, worker->bad};
    char inner[3300];
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(inner, sizeof inner, "%s/.vscode", names[i]);
        rmdir(inner);
        snprintf(inner, sizeof inner, "%s/hgrc", names[i]);
        unlink(inner);
        if (rmdir(names[i])) unlink(names[i]);
    }
}
