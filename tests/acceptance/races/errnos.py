# SPDX-License-Identifier: Apache-2.0 OR MIT
# What bad calls answer, and what good ones leave: a line each, to be compared between outside and
# inside. Run in an empty directory. What only an ordinary user is refused is left out for root.
#
#   errnos.py          calls and arguments
#   errnos.py limits   what limits and signals answer
import ctypes, errno, fcntl, os, resource, shutil, signal, socket, stat, subprocess, sys

libc = ctypes.CDLL(None, use_errno=True)
HERE, EMPTY_PATH, FOLLOW, NOFOLLOW = -100, 0x1000, 0x400, 0x100
TMPFILE, PATH = os.O_DIRECTORY | 0o20000000, 0o10000000
LONG, TOO_LONG = './' * 2047 + 'p', './' * 2048
WRITE, CREATE = os.O_WRONLY, os.O_WRONLY | os.O_CREAT


def row(label, function, *arguments):
    ctypes.set_errno(0)
    converted = [ctypes.c_char_p(os.fsencode(a)) if isinstance(a, str) else a for a in arguments]
    result = getattr(libc, function)(*converted)
    print(label + ':', errno.errorcode[ctypes.get_errno()] if result == -1 else 'done', flush=True)
    return result


def show(label, value):
    print(label + ':', value, flush=True)


def attempt(label, action):
    try:
        show(label, action())
    except OSError as error:
        show(label, errno.errorcode[error.errno])


def put(path, text='x'):
    with open(path, 'w') as file:
        file.write(text)


def mode(path):
    return oct(os.lstat(path).st_mode)


os.umask(0o022)
for directory in ('dir', 'full', 'full/below', 'closed', 'shut', 'gone'):
    os.mkdir(directory)
for path in ('file', 'other', 'full/file', 'closed/file', 'unreadable'):
    put(path)
os.symlink('nowhere', 'dangling')
os.symlink('loop', 'loop')
os.symlink('file', 'link')
os.symlink('dir', 'dirlink')
os.mkfifo('fifo')
listener = socket.socket(socket.AF_UNIX)
listener.bind('socket')
os.chmod('closed', 0o555)
os.chmod('shut', 0)
os.chmod('unreadable', 0)
reading = os.open('file', os.O_RDONLY)
a_file, a_directory, a_place = os.open('file', os.O_RDWR), os.open('dir', os.O_RDONLY), os.open('file', PATH)

if sys.argv[1:] == ['limits']:
    # Descriptors that ran out, files that are too large, a blocking open that a signal ends.
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (os.dup(0), limits[1]))
    row('open one too many', 'open', 'many', CREATE, 0o644)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    show('which was made', os.path.exists('many'))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    row('truncate to more than may be', 'truncate', 'file', ctypes.c_long(5000))
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.siginterrupt(signal.SIGALRM, True)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    row('open a fifo until a signal', 'open', 'fifo', WRITE)
    sys.exit()

row('open missing', 'open', 'missing', WRITE)
row('open below missing', 'open', 'missing/x', CREATE, 0o644)
row('open below a file', 'open', 'file/x', CREATE, 0o644)
row('open a directory for writing', 'open', 'dir', WRITE)
row('open a directory for both', 'open', 'dir', os.O_RDWR)
row('open a directory to create', 'open', 'dir', os.O_RDONLY | os.O_CREAT, 0o644)
row('open . to create', 'open', '.', CREATE, 0o644)
row('open exclusively what is there', 'open', 'file', CREATE | os.O_EXCL, 0o644)
row('open exclusively a dangling link', 'open', 'dangling', CREATE | os.O_EXCL, 0o644)
row('open a link without following', 'open', 'link', WRITE | os.O_NOFOLLOW)
row('open a loop', 'open', 'loop', CREATE, 0o644)
row('open below a loop', 'open', 'loop/x', CREATE, 0o644)
row('open a file as a directory', 'open', 'file', os.O_RDONLY | os.O_DIRECTORY)
row('open with a slash at the end', 'open', 'new/', CREATE, 0o644)
row('open a file with a slash at the end', 'open', 'file/', WRITE)
row('open an unnamed file for reading', 'open', '.', TMPFILE | os.O_RDONLY, 0o644)
row('open an unnamed file in a file', 'open', 'file', TMPFILE | os.O_RDWR, 0o644)
row('open an unnamed file in nothing', 'open', 'missing', TMPFILE | os.O_RDWR, 0o644)
row('open a name of 256 bytes', 'open', 'n' * 256, CREATE, 0o644)
row('open a name of 255 bytes', 'open', 'n' * 255, CREATE, 0o644)
row('open a path of 4095 bytes', 'open', LONG, CREATE, 0o644)
row('open a path of 4096 bytes', 'open', TOO_LONG, CREATE, 0o644)
row('open nothing', 'open', '', CREATE, 0o644)
row('open no pointer', 'open', ctypes.c_void_p(0), CREATE, 0o644)
row('open a bad pointer', 'open', ctypes.c_void_p(1), CREATE, 0o644)
row('open at a bad descriptor', 'openat', 999, 'x', CREATE, 0o644)
row('open at a file', 'openat', a_file, 'x', CREATE, 0o644)
row('open at a file, from the root', 'openat', a_file, '/dev/null', WRITE)
row('open at a directory', 'openat', a_directory, 'new', CREATE, 0o644)
row('open a fifo nobody reads', 'open', 'fifo', WRITE | os.O_NONBLOCK)
row('open a socket', 'open', 'socket', os.O_RDWR)
row('open through a dangling link', 'open', 'dangling', CREATE, 0o644)
row('creat in a missing directory', 'creat', 'missing/x', 0o644)
os.unlink('nowhere')

row('mkdir what is there', 'mkdir', 'dir', 0o755)
row('mkdir a file', 'mkdir', 'file', 0o755)
row('mkdir a dangling link', 'mkdir', 'dangling', 0o755)
row('mkdir .', 'mkdir', '.', 0o755)
row('mkdir nothing', 'mkdir', '', 0o755)
row('mkdir below missing', 'mkdir', 'missing/x', 0o755)
row('mkdir below a file', 'mkdir', 'file/x', 0o755)
row('mkdir with a slash at the end', 'mkdir', 'slash/', 0o755)
row('mkdir a bad pointer', 'mkdir', ctypes.c_void_p(1), 0o755)
row('mkdirat a bad descriptor', 'mkdirat', 999, 'x', 0o755)
row('rmdir what is full', 'rmdir', 'full')
row('rmdir a file', 'rmdir', 'file')
row('rmdir a link', 'rmdir', 'dirlink')
row('rmdir .', 'rmdir', '.')
row('rmdir ..', 'rmdir', 'dir/..')
row('rmdir missing', 'rmdir', 'missing')
row('unlink a directory', 'unlink', 'dir')
row('unlink missing', 'unlink', 'missing')
row('unlink with a slash at the end', 'unlink', 'file/')
row('unlinkat with unknown flags', 'unlinkat', HERE, 'file', 0x4000)
row('unlinkat a directory as one', 'unlinkat', HERE, 'file', 0x200)

row('rename missing', 'rename', 'missing', 'x')
row('rename to below missing', 'rename', 'file', 'missing/x')
row('rename a directory over a file', 'rename', 'dir', 'file')
row('rename a file over a directory', 'rename', 'file', 'dir')
row('rename over what is full', 'rename', 'dir', 'full')
row('rename into itself', 'rename', 'full', 'full/below/x')
row('rename .', 'rename', '.', 'x')
row('rename to ..', 'rename', 'dir', '..')
row('rename a file with a slash', 'rename', 'file', 'x/')
row('rename to itself', 'rename', 'file', './file')
row('rename without replacing', 'renameat2', HERE, 'file', HERE, 'other', 1)
row('exchange with missing', 'renameat2', HERE, 'file', HERE, 'missing', 2)
row('exchange without replacing', 'renameat2', HERE, 'file', HERE, 'other', 3)
row('rename with unknown flags', 'renameat2', HERE, 'file', HERE, 'x', 64)
row('rename to another file system', 'rename', 'file', '/dev/shm/palisade-acc-x')
row('link missing', 'link', 'missing', 'x')
row('link to what is there', 'link', 'file', 'other')
row('link a directory', 'link', 'dir', 'x')
row('link to another file system', 'link', 'file', '/dev/shm/palisade-acc-x')
row('link with unknown flags', 'linkat', HERE, 'file', HERE, 'x', 1)
row('link a dangling link, following', 'linkat', HERE, 'dangling', HERE, 'x', FOLLOW)
row('symlink to what is there', 'symlink', 'x', 'file')
row('symlink of nothing', 'symlink', '', 'x')
row('symlink of 4096 bytes', 'symlink', 'x' * 4096, 'y')
row('symlink of 4095 bytes', 'symlink', 'x' * 4095, 'y')
row('mkfifo what is there', 'mkfifo', 'file', 0o644)
row('mkfifo below missing', 'mkfifo', 'missing/x', 0o644)
row('mknod of an unknown kind', 'mknod', 'x', 0o150000 | 0o644, ctypes.c_long(0))
row('mknod of a directory', 'mknod', 'x', stat.S_IFDIR | 0o755, ctypes.c_long(0))

row('chmod missing', 'chmod', 'missing', 0o644)
row('chmod through a loop', 'chmod', 'loop', 0o644)
row('fchmod a bad descriptor', 'fchmod', 999, 0o644)
row('truncate missing', 'truncate', 'missing', ctypes.c_long(0))
row('truncate a directory', 'truncate', 'dir', ctypes.c_long(0))
row('truncate to less than nothing', 'truncate', 'file', ctypes.c_long(-1))
row('ftruncate for reading', 'ftruncate', reading, ctypes.c_long(0))
row('setxattr of no kind', 'setxattr', 'file', 'nonsense.x', 'y', ctypes.c_size_t(1), 0)
row('setxattr with a long name', 'setxattr', 'file', 'user.' + 'x' * 256, 'y', ctypes.c_size_t(1), 0)
row('setxattr replacing nothing', 'setxattr', 'file', 'user.none', 'y', ctypes.c_size_t(1), 2)
row('removexattr of nothing', 'removexattr', 'file', 'user.none')
row('chown missing', 'chown', 'missing', -1, -1)
row('chown to nobody new', 'chown', 'file', -1, -1)
row('utimes missing', 'utimes', 'missing', None)
attempt('bind what is there', lambda: socket.socket(socket.AF_UNIX).bind('file'))
attempt('bind below missing', lambda: socket.socket(socket.AF_UNIX).bind('missing/x'))
attempt('connect to missing', lambda: socket.socket(socket.AF_UNIX).connect('missing'))
attempt('connect to a file', lambda: socket.socket(socket.AF_UNIX).connect('file'))
attempt('connect to nobody', lambda: socket.socket(socket.AF_UNIX).connect('socket'))

if os.geteuid() != 0:
    row('open what may not be written', 'open', 'unreadable', WRITE)
    row('open below what is shut', 'open', 'shut/x', CREATE, 0o644)
    row('create in what may not be written', 'open', 'closed/x', CREATE, 0o644)
    row('mkdir in what may not be written', 'mkdir', 'closed/x', 0o755)
    row('rename into what may not be written', 'rename', 'other', 'closed/x')
    row('rename out of what may not be written', 'rename', 'closed/file', 'x')
    row('link into what may not be written', 'link', 'other', 'closed/x')
    row('unlink in what may not be written', 'unlink', 'closed/file')
    row('mknod of a disk', 'mknod', 'x', stat.S_IFBLK | 0o644, ctypes.c_long(0x800))
    row('append to a file of the system', 'open', '/proc/version', WRITE)

# A program that runs, a directory that is gone.
shutil.copy('/bin/sleep', 'program')
running = subprocess.Popen(['./program', '9'])
row('open a program that runs', 'open', 'program', WRITE)
running.kill()
running.wait()
start = os.open('.', os.O_RDONLY)
os.chdir('gone')
os.rmdir('../gone')
row('open where nothing is any more', 'open', 'x', CREATE, 0o644)
row('mkdir where nothing is any more', 'mkdir', 'x', 0o755)
row('open beside what is no more', 'open', '../x', CREATE, 0o644)
os.fchdir(start)

# What good calls leave.
os.umask(0o027)
fd = os.dup(0)
os.close(fd)
show('the lowest descriptor', os.open('made', CREATE, 0o666) == fd)
show('mode of a file', mode('made'))
os.mkdir('made.d', 0o777)
show('mode of a directory', mode('made.d'))
os.mkfifo('made.f', 0o666)
show('mode of a fifo', mode('made.f'))
os.open('made.s', CREATE, 0o1755)
show('mode with a sticky bit', mode('made.s'))
os.open('made', CREATE | os.O_TRUNC, 0o777)
show('mode of what was there', mode('made'))
socket.socket(socket.AF_UNIX).bind('made.b')
show('mode of a socket', mode('made.b'))
os.mkdir('sticky.d')
os.chmod('sticky.d', 0o3777)
os.mkdir('sticky.d/below')
show('mode below a set-group-id directory', mode('sticky.d/below'))
for name in ('O_APPEND', 'O_NONBLOCK', 'O_SYNC', 'O_DSYNC', 'O_NOATIME', 'O_CLOEXEC', 'O_NOCTTY'):
    fd = libc.open(b'made', os.O_RDWR | getattr(os, name))
    show('flags with ' + name, [oct(fcntl.fcntl(fd, fcntl.F_GETFL)), fcntl.fcntl(fd, fcntl.F_GETFD)])
for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, PATH, os.O_RDWR | os.O_TRUNC | os.O_CREAT):
    fd = libc.open(b'made', flags, 0o666)
    show(f'flags of {flags:o}', [oct(fcntl.fcntl(fd, fcntl.F_GETFL)), fcntl.fcntl(fd, fcntl.F_GETFD)])
fd = os.open('.', TMPFILE | os.O_RDWR, 0o666)
os.write(fd, b'unnamed')
row('link an unnamed file', 'linkat', HERE, f'/proc/self/fd/{fd}', HERE, 'named', FOLLOW)
show('mode of what had no name', mode('named'))
fd = os.open('.', TMPFILE | os.O_RDWR | os.O_EXCL, 0o666)
row('link what must stay unnamed', 'linkat', HERE, f'/proc/self/fd/{fd}', HERE, 'named.x', FOLLOW)
one, two = os.open('made', os.O_RDWR), os.open('/proc/self/fd/%d' % os.open('made', PATH), os.O_RDWR)
os.write(one, b'1234')
show('two opens have two offsets', os.lseek(two, 0, os.SEEK_CUR))
seen = os.stat('made')
show('owner', [seen.st_uid == os.geteuid(), seen.st_gid == os.getegid(), seen.st_nlink])
show('names', sorted(name for name in os.listdir('.') if len(name) < 255))
os.chmod('closed', 0o755)
os.chmod('shut', 0o755)
