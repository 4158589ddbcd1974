// SPDX-License-Identifier: Apache-2.0 OR MIT
// What swap.c (what is swapped, and the verdict) and attempts.c (the calls) share.
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { MAX_THREADS = 16, SWAPPED = 200 }; // from SWAPPED + 1 on a descriptor for each thread
enum mode { MEMORY, DIRECTORY, LINK, DESCRIPTOR, MAGIC, CWD, TREE, SOURCE, CONTENT, BORN, UMASK, MODES };

#define PRESENT "present" // the name that is there in both
#define ATTRIBUTE "user.palisade"
#define CONFIG "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
#define HARMLESS "[branch \"x\"]\n\tdescription = harmless\n"
#define EVIL "[core]\n\tfsmonitor = ./this-is-my-own\n"
_Static_assert(sizeof HARMLESS == sizeof EVIL, "what is swapped in place must not leave a rest behind");

// What a thread has.
struct worker {
    _Alignas(64) char before[62];
    unsigned short family; // with the path behind it the address of a socket
    char path[3200];       // what its next call is about: the flipper writes the first four bytes
    _Alignas(4) char room[3400];
    char *whole, *swapped; // in there, the same path from the root on, and the four bytes of it
    char leaf[3200];
    char name[32], doomed[32]; // a new name, and the one that is this thread's to remove
    char own[3200], away[3200];   // files of its own, by names that nothing swaps
    char box[3200], good[3200], bad[3200], trusted[3200]; // directories of its own, and where the host's was
    int number, turn, has_own, has_built;
};

extern enum mode mode;
extern int threads, free_top, free_hooks; // the directories, whatever their names are at the moment
extern int git_present;                   // .git/hooks/present, for looking
extern char top[3072];

void die(const char *what);
int must(int result, const char *what);
int judged(long result);         // counts an attempt: whether it was granted
void settle(int was_harmless);   // says of one that was granted what it did
void stop(void);                 // no further attempts
long wrongs(void);               // how many changed something protected
int is_born(void);               // whether nest is a repository
int unchanged(void);             // whether .git/hooks/present is what it was

void equip(struct worker *worker, int number);
void attempt(struct worker *worker);
void clear(struct worker *worker); // removes the directories of its own
