// SPDX-License-Identifier: Apache-2.0 OR MIT
// What a call means is swapped by one thread while others make the call.
//
//   swap prepare                  makes the ground in the current directory: free/ and .git/, alike
//   swap MODE ATTEMPTS THREADS    tries; MODE is what is swapped between the two:
//     memory      four bytes of the path in the caller's memory: free/hooks/… and .git/hooks/…,
//                 free and .git
//     directory   the directory free and a link to .git, by an exchange of their names
//     link        where two links lead, one to the directory and one to a file in it
//     descriptor  the directory behind a descriptor, by dup2
//     magic       the same, named as /proc/self/fd/… and /proc/NUMBER/fd/…
//     cwd         the current directory, by fchdir
//     tree        what is in a directory that is moved to where one of the host's was: .vscode or nothing
//     source      what is moved to .hg: a file, or a directory with an hgrc
//     content     what is in a file that is moved to .git/config
//     born        whether the directory nest is a repository, by its refs
//     umask       the umask; here the modes of what is made are judged
//   swap MODE ATTEMPTS THREADS elsewhere    the same, while somebody else swaps:
//   swap flip MODE                          swaps (directory, link, born) until there is a file "stop"
//
// Each attempt is one call on the name that is swapped. Prints how many there were, how many were granted
// and refused, and of those granted how many changed something protected and how many were harmless.
// Exits with 0 if the first is 0 and the second isn't, with 1 if something protected changed, with 2
// if nothing harmless worked, with 3 if it couldn't do its work or took longer than a minute.
#define _GNU_SOURCE
#include "swap.h"
#include <dirent.h>
#include <pthread.h>
#include <signal.h>

enum { ERRNOS = 134, LIMIT = 60 };
static const char *const modes[MODES] = {
    "memory", "directory", "link", "descriptor", "magic", "cwd", "tree", "source", "content", "born", "umask"};

enum mode mode;
int threads, free_top, free_hooks, git_present;
char top[3072];
struct worker workers[MAX_THREADS];

static int attempts, git_top, git_hooks;
static ino_t doomed[MAX_THREADS];
static atomic_int finished, stopped;
static atomic_long tried, granted, harmless, wrong, errors[ERRNOS];

void die(const char *what) {
    perror(what);
    _exit(3);
}
int must(int result, const char *what) {
    if (result < 0) die(what);
    return result;
}
static void too_long(int signal) {
    (void)signal;
    static const char words[] = "swap: took too long\n";
    if (write(2, words, sizeof words - 1)) {}
    _exit(3);
}

int judged(long result) {
    atomic_fetch_add(&tried, 1);
    if (result < 0 && errno > 0 && errno < ERRNOS) atomic_fetch_add(&errors[errno], 1);
    if (result >= 0) atomic_fetch_add(&granted, 1);
    return result >= 0;
}
void settle(int was_harmless) { atomic_fetch_add(was_harmless ? &harmless : &wrong, 1); }
void stop(void) { atomic_store(&stopped, 1); }
long wrongs(void) { return atomic_load(&wrong); }

int unchanged(void) {
    struct stat seen;
    must(fstat(git_present, &seen), ".git/hooks/present");
    return seen.st_size == 4 && (seen.st_mode & 07777) == 0644 && seen.st_nlink == 1
        && fgetxattr(git_present, ATTRIBUTE, 0, 0) < 0;
}

static void put(const char *path, const char *text) {
    int fd = must(open(path, O_WRONLY | O_CREAT | O_EXCL, 0644), path);
    if (write(fd, text, strlen(text)) != (ssize_t)strlen(text)) die(path);
    close(fd);
}

static void prepare(void) {
    static const char *const directories[] = {"free", "free/hooks", "free/info", ".git", ".git/hooks",
        ".git/info", ".git/objects", ".git/refs", "spare"};
    static const char *const files[] = {
        "free/hooks/present", ".git/hooks/present", "free/info/attributes", ".git/info/attributes"};
    char path[64];
    umask(022);
    for (unsigned i = 0; i < sizeof directories / sizeof *directories; i++)
        must(mkdir(directories[i], 0755), directories[i]);
    for (unsigned i = 0; i < sizeof files / sizeof *files; i++) put(files[i], "old\n");
    put(".git/HEAD", "ref: refs/heads/main\n");
    put(".git/config", CONFIG);
    for (int i = 0; i < MAX_THREADS; i++) {
        for (int side = 0; side < 2; side++) {
            snprintf(path, sizeof path, "%s/hooks/doomed-%d", side ? ".git" : "free", i);
            put(path, "old\n");
        }
        snprintf(path, sizeof path, "trusted-%d", i);
        must(mkdir(path, 0755), path);
    }
    must(symlink(".git", "link"), "link");
    must(symlink(".git/hooks/present", "leaf"), "leaf");
}

static void turn_link(const char *link, const char *target) {
    if (symlink(target, "turning") == 0 || errno == EEXIST) rename("turning", link);
}

static void swap_trees(unsigned turn) {
    for (int i = 0; i < threads; i++) {
        struct worker *worker = &workers[i];
        if (mode == TREE) {
            if (turn & 1) unlinkat(SWAPPED + 1 + i, ".vscode", AT_REMOVEDIR);
            else mkdirat(SWAPPED + 1 + i, ".vscode", 0755);
        } else if (turn & 1) { // each of these may find nothing to rename: the worker took it
            rename(worker->box, worker->bad);
            rename(worker->good, worker->box);
        } else {
            rename(worker->box, worker->good);
            rename(worker->bad, worker->box);
        }
    }
}

// Two values in turn, as fast as it goes.
static void flip_once(unsigned turn) {
    static const char *const texts[] = {CONFIG HARMLESS, CONFIG EVIL};
    int side = turn & 1;
    uint32_t word[2];
    memcpy(&word[0], "free", 4);
    memcpy(&word[1], ".git", 4);
    switch (mode) {
    case MEMORY:
        for (int i = 0; i < threads; i++) {
            atomic_store_explicit((_Atomic uint32_t *)(void *)workers[i].path, word[side], memory_order_relaxed);
            atomic_store_explicit((_Atomic uint32_t *)(void *)workers[i].swapped, word[side], memory_order_relaxed);
        }
        break;
    case DIRECTORY: syscall(SYS_renameat2, AT_FDCWD, "free", AT_FDCWD, "link", 2); break;
    case LINK:
        turn_link("link", side ? ".git" : "free");
        turn_link("leaf", side ? ".git/hooks/present" : "free/hooks/present");
        break;
    case DESCRIPTOR:
    case MAGIC: must(dup2(side ? git_hooks : free_hooks, SWAPPED), "dup2"); break;
    case CWD: must(fchdir(side ? git_hooks : free_hooks), "fchdir"); break;
    case TREE:
    case SOURCE: swap_trees(turn); break;
    case CONTENT:
        for (int i = 0; i < threads; i++)
            if (pwrite(SWAPPED + 1 + i, texts[side], strlen(texts[side]), 0)) {} // not open yet: no matter
        break;
    case BORN:
        if (side) rmdir("nest/refs");
        else mkdir("nest/refs", 0755);
        break;
    default: umask(side ? 027 : 0);
    }
}
static void *flip(void *unused) {
    for (unsigned turn = 0; atomic_load(&finished) < threads; turn++) flip_once(turn);
    return unused;
}

static void *work(void *argument) {
    struct worker *worker = argument;
    for (int at = 0; at < (attempts + threads - 1) / threads && !atomic_load(&stopped); at++) {
        worker->turn = at;
        attempt(worker);
    }
    atomic_fetch_add(&finished, 1);
    return 0;
}

// How many names are in the directory that weren't; for umask: with a wrong mode.
static long count(int directory, int only_wrong_modes) {
    long found = 0;
    DIR *stream = fdopendir(must(dup(directory), "dup"));
    if (!stream) die("fdopendir");
    rewinddir(stream);
    for (struct dirent *entry; (entry = readdir(stream));) {
        struct stat seen;
        if (entry->d_name[0] == '.' || !strcmp(entry->d_name, PRESENT) || !strncmp(entry->d_name, "doomed-", 7))
            continue;
        if (only_wrong_modes) {
            must(fstatat(directory, entry->d_name, &seen, AT_SYMLINK_NOFOLLOW), entry->d_name);
            mode_t all = S_ISDIR(seen.st_mode) ? 0777 : 0666, is = seen.st_mode & 07777;
            if (is == all || is == (all & ~027u)) continue;
        }
        found++;
    }
    closedir(stream);
    return found;
}

static ino_t doomed_inode(int number) {
    char name[32];
    struct stat seen;
    snprintf(name, sizeof name, "doomed-%d", number);
    return fstatat(git_hooks, name, &seen, AT_SYMLINK_NOFOLLOW) ? 0 : seen.st_ino;
}

// What is wrong at the end, whatever was counted on the way.
static long left_wrong(void) {
    struct stat seen;
    long found = mode == UMASK ? count(free_hooks, 1) : 0;
    found += count(git_hooks, 0) + !unchanged() + (fstatat(git_top, "info/attributes", &seen, 0) != 0);
    for (int i = 0; i < MAX_THREADS; i++) found += doomed_inode(i) != doomed[i];
    if (mode == BORN && is_born()) {
        int hooks = must(open("nest/hooks", O_RDONLY | O_DIRECTORY), "nest/hooks");
        found += count(hooks, 0);
        close(hooks);
    }
    return found;
}

// What is a repository as long as it has refs; whoever swaps has made it.
static void build_nest(void) {
    must(mkdir("building", 0755), "building");
    must(mkdir("building/hooks", 0755), "building/hooks");
    must(mkdir("building/objects", 0755), "building/objects");
    must(rename("building", "nest"), "nest");
}

static void begin(void) {
    if (!getcwd(top, sizeof top)) die("getcwd");
    // Somebody else may be swapping already: of the two one is the directory.
    for (free_top = -1; free_top < 0;) {
        free_top = open("free", O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        if (free_top < 0) free_top = open("link", O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    }
    free_hooks = must(openat(free_top, "hooks", O_RDONLY | O_DIRECTORY), "free/hooks");
    git_top = must(open(".git", O_RDONLY | O_DIRECTORY), ".git");
    git_hooks = must(openat(git_top, "hooks", O_RDONLY | O_DIRECTORY), ".git/hooks");
    git_present = must(openat(git_hooks, PRESENT, O_RDONLY), ".git/hooks/present");
    for (int i = 0; i < MAX_THREADS; i++) doomed[i] = doomed_inode(i);
    must(dup2(free_hooks, SWAPPED), "dup2");
    for (int i = 0; i < threads; i++) equip(&workers[i], i);
    if (mode == CWD) must(fchdir(free_hooks), "fchdir");
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "prepare")) return prepare(), 0;
    int flips = argc == 3 && !strcmp(argv[1], "flip");
    const char *wanted = flips ? argv[2] : argc >= 4 ? argv[1] : "";
    for (mode = 0; mode < MODES && strcmp(wanted, modes[mode]); mode++) {}
    attempts = argc >= 4 ? atoi(argv[2]) : 1, threads = argc >= 4 ? atoi(argv[3]) : 1;
    if (argc > 5 || mode == MODES || attempts < 1 || threads < 1 || threads > MAX_THREADS) {
        fprintf(stderr, "usage: swap prepare | swap flip MODE | swap MODE ATTEMPTS THREADS [elsewhere]\n");
        return 3;
    }
    signal(SIGALRM, too_long);
    alarm(LIMIT);
    umask(0);
    if (flips) {
        if (mode == BORN) build_nest();
        for (unsigned turn = 0; access("stop", F_OK); turn++) flip_once(turn);
        return 0;
    }
    if (mode == BORN && argc == 4) build_nest();
    begin();

    pthread_t flipper, runners[MAX_THREADS];
    if (argc == 4 && pthread_create(&flipper, 0, flip, 0)) die("pthread_create");
    for (int i = 0; i < threads; i++)
        if (pthread_create(&runners[i], 0, work, &workers[i])) die("pthread_create");
    for (int i = 0; i < threads; i++) pthread_join(runners[i], 0);
    if (argc == 4) pthread_join(flipper, 0);
    if (mode == TREE || mode == SOURCE)
        for (int i = 0; i < threads; i++) clear(&workers[i]);

    long left = left_wrong(), found = left > wrong ? left : wrong;
    printf("%s: wrong %ld, harmless %ld; attempts %ld, granted %ld, refused %ld; errors:", modes[mode], found,
        (long)harmless, (long)tried, (long)granted, (long)errors[EACCES]);
    for (int i = 0; i < ERRNOS; i++)
        if (errors[i]) printf(" %s %ld", strerrorname_np(i), (long)errors[i]);
    putchar('\n');
    return found ? 1 : harmless ? 0 : 2;
}
