# SPDX-License-Identifier: Apache-2.0 OR MIT
# Put before each Python snippet: system calls by name, without a library in between. The harness imports signal and socket
# before it where they are used.
import ctypes, errno, os, struct, sys, time

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_X86 = dict(
    ptrace=101, syslog=103, personality=135, pivot_root=155, adjtimex=159, chroot=161, sync=162,
    acct=163, settimeofday=164, mount=165, umount2=166, swapon=167, swapoff=168, reboot=169,
    sethostname=170, setdomainname=171, iopl=172, ioperm=173, init_module=175, delete_module=176,
    clock_settime=227, mq_open=240, mq_timedreceive=243, kexec_load=246, add_key=248,
    request_key=249, keyctl=250, unshare=272, name_to_handle_at=303, open_by_handle_at=304,
    clock_adjtime=305, setns=308, process_vm_readv=310, process_vm_writev=311, kcmp=312,
    finit_module=313, memfd_create=319, bpf=321, execveat=322, userfaultfd=323, ioctl=16,
    perf_event_open=298, fanotify_init=300, prlimit64=302, io_uring_setup=425, open_tree=428,
    move_mount=429, fsopen=430, fsmount=432, pidfd_open=434, clone3=435, openat2=437,
    pidfd_getfd=438, mount_setattr=442, clone=56, shmget=29, shmat=30, msgget=68, msgrcv=70,
    quotactl=179, process_madvise=440, pidfd_send_signal=424, landlock_create_ruleset=444)
_ARM = dict(
    ptrace=117, syslog=116, personality=92, pivot_root=41, adjtimex=171, chroot=51, sync=81,
    acct=89, settimeofday=170, mount=40, umount2=39, swapon=224, swapoff=225, reboot=142,
    sethostname=161, setdomainname=162, init_module=105, delete_module=106, clock_settime=112,
    mq_open=180, mq_timedreceive=183, kexec_load=104, add_key=217, request_key=218, keyctl=219,
    unshare=97, name_to_handle_at=264, open_by_handle_at=265, clock_adjtime=266, setns=268,
    process_vm_readv=270, process_vm_writev=271, kcmp=272, finit_module=273, memfd_create=279,
    bpf=280, execveat=281, userfaultfd=282, ioctl=29, perf_event_open=241, fanotify_init=262,
    prlimit64=261, io_uring_setup=425, open_tree=428, move_mount=429, fsopen=430, fsmount=432,
    pidfd_open=434, clone3=435, openat2=437, pidfd_getfd=438, mount_setattr=442, clone=220,
    shmget=194, shmat=196, msgget=186, msgrcv=188, quotactl=60, process_madvise=440,
    pidfd_send_signal=424, landlock_create_ruleset=444)
NR = _ARM if os.uname().machine == 'aarch64' else _X86


def call(name, *arguments):
    """One system call: its result, or minus its errno."""
    converted = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    ctypes.set_errno(0)
    result = _libc.syscall(ctypes.c_long(NR[name]), *converted)
    return -ctypes.get_errno() if result == -1 else result


def reached(condition=True):
    """The snippet got where it wanted; the harness looks for the word."""
    print('reached' if condition else 'not there', flush=True)


def say(result):
    """Prints what came of a call, for the reader of a failure."""
    print(errno.errorcode.get(-result, result) if result < 0 else result, flush=True)
    return result


def victim():
    return int(open(W + '/victim').read())
