// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Gives policies to libseccomp and prints the filters that it makes. Reads requests. Requests that have an answer get
// one line:
//
//   number NAME           the call's numbers on x86_64 and aarch64, negative where there is none
//   name ARCH NUMBER      the call's name, or "-"
//   policy ARCH DEFAULT FOREIGN
//                         begins a policy; actions are what a filter returns, in hexadecimal
//   rule ACTION NAME NUMBER [ARGUMENT eq|ne MASK VALUE]...
//                         adds to it, without an answer
//   export                ends it: the program, 16 hexadecimal digits an instruction
//
// If libseccomp refuses a request, the process ends: the test knows which requests are valid.

#define _GNU_SOURCE
#include <linux/filter.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned long line_number;

static void need(int succeeded, const char *what, int error)
{
    if (succeeded)
        return;
    fprintf(stderr, "export.c: line %lu: %s: %s\n", line_number, what, strerror(error < 0 ? -error : error));
    exit(1);
}

static const char *word(void)
{
    const char *next = strtok(NULL, " \n");
    need(next != NULL, "a word is missing", 0);
    return next;
}

static uint64_t hexadecimal(void)
{
    char *end;
    uint64_t value = strtoull(word(), &end, 16);
    need(*end == '\0', "not a hexadecimal number", 0);
    return value;
}

static uint32_t architecture(void)
{
    uint32_t arch = seccomp_arch_resolve_name(word());
    need(arch != 0, "not an architecture", 0);
    return arch;
}

static scmp_filter_ctx begin(uint32_t arch, uint32_t otherwise, uint32_t foreign)
{
    scmp_filter_ctx filter = seccomp_init(otherwise);
    need(filter != NULL, "seccomp_init", 0);
    int error = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, foreign);
    need(error == 0, "SCMP_FLTATR_ACT_BADARCH", error);
    if (arch != seccomp_arch_native()) {
        error = seccomp_arch_add(filter, arch);
        need(error == 0, "seccomp_arch_add", error);
        error = seccomp_arch_remove(filter, seccomp_arch_native());
        need(error == 0, "seccomp_arch_remove", error);
    }
    return filter;
}

static void rule(scmp_filter_ctx filter, uint32_t arch)
{
    uint32_t action = hexadecimal();
    const char *name = word();
    int number = hexadecimal();
    struct scmp_arg_cmp tests[6];
    unsigned count = 0;
    const char *next;

    while ((next = strtok(NULL, " \n")) != NULL) {
        need(count < 6, "too many tests", 0);
        unsigned argument = strtoul(next, NULL, 10);
        int equal = strcmp(word(), "eq") == 0;
        uint64_t mask = hexadecimal(), value = hexadecimal();
        if (mask == UINT64_MAX)
            tests[count++] = SCMP_CMP64(argument, equal ? SCMP_CMP_EQ : SCMP_CMP_NE, value, 0);
        else {
            need(equal, "ne needs the whole mask", 0);
            tests[count++] = SCMP_CMP64(argument, SCMP_CMP_MASKED_EQ, mask, value);
        }
    }
    // libseccomp takes native call numbers. It finds another architecture's number by the common name (or by a number
    // of its own that stands for a name).
    if (arch != seccomp_arch_native())
        number = seccomp_syscall_resolve_name(name);
    int error = seccomp_rule_add_exact_array(filter, action, number, count, tests);
    need(error == 0, name, error);
}

static void print_program(scmp_filter_ctx filter)
{
    // Not a pipe: a whole program may not fit into it, and no process reads meanwhile.
    int memory = memfd_create("filter", MFD_CLOEXEC);
    need(memory >= 0, "memfd_create", 0);
    int error = seccomp_export_bpf(filter, memory);
    need(error == 0, "seccomp_export_bpf", error);
    need(lseek(memory, 0, SEEK_SET) == 0, "lseek", 0);
    FILE *program = fdopen(memory, "r");
    need(program != NULL, "fdopen", 0);
    struct sock_filter instruction;
    while (fread(&instruction, sizeof instruction, 1, program) == 1)
        printf("%04x%02x%02x%08x", instruction.code, instruction.jt, instruction.jf, instruction.k);
    putchar('\n');
    fclose(program);
}

int main(void)
{
    scmp_filter_ctx filter = NULL;
    uint32_t arch = 0, otherwise = 0, foreign = 0;
    char *line = NULL;
    size_t size = 0;

    // Enable every action, whatever the running kernel supports: nothing is loaded.
    int error = seccomp_api_set(6);
    need(error == 0, "seccomp_api_set", error);
    while (getline(&line, &size, stdin) != -1) {
        line_number++;
        const char *verb = strtok(line, " \n");
        need(verb != NULL, "an empty line", 0);
        if (strcmp(verb, "number") == 0) {
            const char *name = word();
            printf("%d %d\n", seccomp_syscall_resolve_name_arch(SCMP_ARCH_X86_64, name),
                   seccomp_syscall_resolve_name_arch(SCMP_ARCH_AARCH64, name));
        } else if (strcmp(verb, "name") == 0) {
            uint32_t of = architecture();
            char *name = seccomp_syscall_resolve_num_arch(of, hexadecimal());
            printf("%s\n", name ? name : "-");
            free(name);
        } else if (strcmp(verb, "policy") == 0) {
            arch = architecture();
            otherwise = hexadecimal();
            foreign = hexadecimal();
            filter = begin(arch, otherwise, foreign);
        } else if (strcmp(verb, "rule") == 0 && filter != NULL) {
            rule(filter, arch);
        } else if (strcmp(verb, "export") == 0 && filter != NULL) {
            if (arch == SCMP_ARCH_X86_64) {
                // Alone, x86-64 answers x32's numbers as a foreign architecture's. x32 beside it, with no rule
                // at all, has them answered by the default.
                error = seccomp_merge(filter, begin(SCMP_ARCH_X32, otherwise, foreign));
                need(error == 0, "seccomp_merge", error);
            }
            print_program(filter);
            seccomp_release(filter);
            filter = NULL;
        } else {
            need(0, "not a request", 0);
        }
        fflush(stdout);
    }
    return 0;
}
