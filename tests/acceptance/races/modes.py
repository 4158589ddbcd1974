# SPDX-License-Identifier: Apache-2.0 OR MIT
# Every call by which a file gets a mode, by its number, each on a name of its own in the working directory. Put after
# prelude.py.
import stat

_MORE = dict(
    open=2, creat=85, mkdir=83, chmod=90, fchmod=91, mknod=133, openat=257, mkdirat=258, mknodat=259, linkat=265, fchmodat=268,
    fchmodat2=452)
if os.uname().machine == 'aarch64':
    _MORE = dict(mknodat=33, mkdirat=34, linkat=37, fchmod=52, fchmodat=53, openat=56, fchmodat2=452)
NR.update(_MORE)
CWD = -100


def _there(name):
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT, 0o755))
    return name.encode()


def _is_set(name, bits):
    try:
        return os.lstat(name).st_mode & bits == bits
    except FileNotFoundError:
        return False


# Each takes a name and a mode, and says what the call did. The file's name is that of the spelling.
def _open(name, mode):
    return call('open', name.encode(), os.O_WRONLY | os.O_CREAT, mode)


def _openat(name, mode):
    return call('openat', CWD, name.encode(), os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)


def _openat_tmpfile(name, mode):
    made = call('openat', CWD, b'.', os.O_TMPFILE | os.O_RDWR, mode)
    if made >= 0:
        call('linkat', CWD, f'/proc/self/fd/{made}'.encode(), CWD, name.encode(), 0x400)
    return made


def _openat2(name, mode):
    how = struct.pack('QQQ', os.O_WRONLY | os.O_CREAT, mode & 0o7777, 0)
    return call('openat2', CWD, name.encode(), how, len(how))


def _creat(name, mode):
    return call('creat', name.encode(), mode)


def _mknod(name, mode):
    return call('mknod', name.encode(), stat.S_IFREG | mode, 0)


def _mknodat(name, mode):
    return call('mknodat', CWD, name.encode(), mode, 0)


def _mknod_fifo(name, mode):
    return call('mknod', name.encode(), stat.S_IFIFO | mode, 0)


def _chmod(name, mode):
    return call('chmod', _there(name), mode)


def _chmod_link(name, mode):
    os.symlink(name, name + '-link')
    _there(name)
    return call('chmod', (name + '-link').encode(), mode)


def _fchmod(name, mode):
    # A descriptor for reading is enough.
    return call('fchmod', os.open(_there(name), os.O_RDONLY), mode)


def _fchmodat(name, mode):
    return call('fchmodat', CWD, _there(name), mode)


def _fchmodat2(name, mode):
    return call('fchmodat2', CWD, _there(name), mode, 0x100)


def _fchmodat2_descriptor(name, mode):
    return call('fchmodat2', os.open(_there(name), os.O_PATH), b'', mode, 0x1000)


def _thread(name, mode):
    import threading
    results = []
    one = threading.Thread(target=lambda: results.append(_fchmodat(name, mode)))
    one.start()
    one.join()
    return results[0]


def _child(name, mode):
    _there(name)
    child = os.fork()
    if child == 0:
        os._exit(-call('fchmodat', CWD, name.encode(), mode))
    return -os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def spellings():
    """By name, those whose calls this architecture and this kernel have."""
    own = [_open, _openat, _openat_tmpfile, _openat2, _creat, _mknod, _mknodat, _mknod_fifo, _chmod, _chmod_link, _fchmod,
           _fchmodat, _fchmodat2, _fchmodat2_descriptor, _thread, _child]
    lacks = {'open', 'creat', 'mknod', 'chmod'} - set(NR)
    # Asked with the mode that the file has.
    if call('fchmodat2', CWD, _there('probe'), 0o755, 0) == -errno.ENOSYS:
        lacks.add('fchmodat2')
    os.remove('probe')
    named = {function.__name__[1:]: function for function in own}
    return {name: function for name, function in named.items() if name.split('_')[0] not in lacks}


def give_away(bits, upper=0):
    """Tries every spelling. Outside all set the bits: `reached`. Inside each must be refused, with EPERM, or ENOSYS where
    programs have another way. Exits with 1 if anything else came of one."""
    os.umask(0)
    took, odd, tried = [], [], spellings()
    for name, function in tried.items():
        try:
            result = function(name, bits | 0o755 | upper)
        except OSError as error:
            result = -error.errno
        if result >= 0 and _is_set(name, bits):
            took.append(name)
        elif result != -errno.EPERM and (name, result) != ('openat2', -errno.ENOSYS):
            odd.append((name, result))
    print('set by', took, 'odd', odd, flush=True)
    if len(took) == len(tried):
        reached()
    sys.exit(1 if odd or 0 < len(took) < len(tried) else 0)
