# SPDX-License-Identifier: Apache-2.0 OR MIT
# Put after prelude.py before the attacks on protected names.
import atexit, mmap, stat, threading

NR.update(fchmodat2=452, setxattrat=463, removexattrat=466)

AT_FDCWD, AT_SYMLINK_FOLLOW, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH = -100, 0x400, 0x100, 0x1000
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
O_PATH, O_TMPFILE = 0o10000000, os.O_DIRECTORY | 0o20000000
HOOK, NEW = '.git/hooks/pre-commit', '.git/hooks/post-commit'
MINE = '#!/bin/sh\n# mine\n'
# Configuration that makes git run a program of the attacker's.
EVIL = '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = ./mine\n'


def do(function, *arguments):
    """A function of the C library; OSError where it says -1."""
    ctypes.set_errno(0)
    result = getattr(_libc, function)(*[os.fsencode(a) if isinstance(a, str) else a for a in arguments])
    if result == -1:
        raise OSError(ctypes.get_errno(), function + ': ' + os.strerror(ctypes.get_errno()))
    return result


def raw(name, *arguments):
    """A system call; OSError where it says -1."""
    result = call(name, *[os.fsencode(a) if isinstance(a, str) else a for a in arguments])
    if result < 0:
        raise OSError(-result, name + ': ' + os.strerror(-result))
    return result


def put(path, text=MINE):
    with open(path, 'w') as file:
        file.write(text)
    return path


def write(fd, text=MINE):
    os.write(fd, text.encode())
    os.close(fd)


def make_git(top, hook='post-commit'):
    """What git takes for a repository of its own, with a hook, under a name that protects nothing."""
    for directory in ('objects', 'refs/heads', 'hooks'):
        os.makedirs(top + '/' + directory)
    put(top + '/HEAD', 'ref: refs/heads/main\n')
    put(top + '/config', EVIL)
    put(top + '/hooks/' + hook)
    os.chmod(top + '/hooks/' + hook, 0o755)


def in_child(function):
    """Runs it in a process of its own and waits."""
    pid = os.fork()
    if pid == 0:
        try:
            function()
        except OSError as error:
            print('refused:', error, flush=True)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


# ---- every operation on one name ----------------------------------------------------------------

def _link_out(name, content):
    os.link(name, 'out')
    with open('out', 'a') as file:
        file.write(content)


def _replace(name, content):
    put('mine', content)
    os.rename('mine', name)


def _exchange(name, content):
    put('mine', content)
    do('renameat2', AT_FDCWD, 'mine', AT_FDCWD, name, EXCHANGE)


def _symlink_over(name, content):
    put('mine', content)
    os.symlink(os.path.abspath('mine'), 'link')
    os.rename('link', name)


def _move_top_away(name, content):
    os.rename(name.split('/')[0], 'away')


def _directory_in(name, content):
    """Builds the topmost component elsewhere and moves it to its place."""
    top, _, rest = name.partition('/')
    if rest:
        os.makedirs(os.path.dirname('built/' + rest), exist_ok=True)
        put('built/' + rest, content)
    else:
        put('built', content)
    os.rename('built', top)


def above(name):
    """Makes the directories above a name."""
    os.makedirs(os.path.dirname(name) or '.', exist_ok=True)
    return name


OPERATIONS = {
    'had-overwrite': put,
    'had-append': lambda name, content: write(os.open(name, os.O_WRONLY | os.O_APPEND), content),
    'had-replace': _replace,
    'had-exchange': _exchange,
    'had-symlink-over': _symlink_over,
    'had-link-out': _link_out,
    'had-truncate': lambda name, content: os.truncate(name, 0),
    'had-unlink': lambda name, content: os.unlink(name),
    'had-move-away': lambda name, content: os.rename(name, 'away'),
    'had-move-top-away': _move_top_away,
    'had-chmod': lambda name, content: os.chmod(name, 0o755),
    'add-create': put,
    'add-move-in': _replace,
    'new-create': lambda name, content: put(above(name), content),
    'new-exclusive': lambda name, content: write(os.open(above(name), os.O_CREAT | os.O_EXCL | os.O_WRONLY), content),
    'new-move-in': lambda name, content: os.rename(put('mine', content), above(name)),
    'new-link-in': lambda name, content: os.link(put('mine', content), above(name)),
    'new-symlink': lambda name, content: os.symlink(os.path.abspath(put('mine', content)), above(name)),
    'new-directory-in': _directory_in,
    'new-mkdir': lambda name, content: os.mkdir(above(name)),
    'new-fifo': lambda name, content: os.mkfifo(above(name)),
}


def every_operation(name):
    """All of them, each in its place of the ground."""
    content = EVIL if name == '.git/config' else MINE
    for place in ('ops', 'nested/ops'):
        for operation in os.listdir(W + '/' + place):
            os.chdir(W + '/' + place + '/' + operation)
            try:
                OPERATIONS[operation](name, content)
                print(place, operation, 'done')
            except OSError as error:
                print(place, operation, 'refused:', errno.errorcode[error.errno])
    os.chdir(W)


# ---- the end of each attack ---------------------------------------------------------------------

def _still_works():
    """Whatever was refused, what is harmless must go on working."""
    try:
        os.rename(put(W + '/harmless', 'x'), W + '/harmless.2')
        os.unlink(W + '/harmless.2')
    except OSError as error:
        print('what is harmless was refused:', error, file=sys.stderr, flush=True)
        os._exit(3)


def _refused(kind, error, trace):
    if not issubclass(kind, OSError):
        return sys.__excepthook__(kind, error, trace)
    print('refused:', error, flush=True)
    _still_works()
    os._exit(0)


atexit.register(_still_works)
sys.excepthook = _refused
