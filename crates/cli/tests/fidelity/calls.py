# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# calls.py KIND...: makes calls that write names, each with all of these paths, in a small tree that is as before each
# time, and says what came of each: a line with call, paths and 0, errno, or what was opened.
import ctypes, errno, fcntl, itertools, os, socket, stat, sys

libc = ctypes.CDLL(None, use_errno=True)
HERE, ME, NONE = -100, os.getuid(), 99
size, long = ctypes.c_size_t, ctypes.c_long

PATHS = ["f", "d", "d/", "d/.", ".", "..", "/", "missing", "missing/", "missing/x", "f/", "f/x", "f/.", "l", "l/", "dl",
         "dl/", "dl/.", "dang", "dang/", "loop", "loop/x", "astray", "p", "full", "locked", "locked/x", "closed/new",
         "closed/f", "blind", "blind/f", "ro", "", "n" * 255, "n" * 256, "missing/" + "n" * 256, "x/" * 2100, None,
         "dl/../f", "d/new", "turn", "turn/", "po"]
PAIRED = ["f", "g", "d", "d/", "d/..", ".", "/", "missing", "missing/x", "f/", "f/x", "l", "dl", "dang", "loop/x", "full",
          "d/in", "locked/x", "closed/new", "blind/f", "", "n" * 256, None, "new"]

def build():
    for name in "d", "e", "d/sub", "full", "full/x", "blind", "closed", "locked": os.mkdir(name)
    for name in "f", "g", "d/in", "full/file", "closed/f", "blind/f", "ro":
        with open(name, "w") as file: file.write("text")
    for target, name in ("f", "l"), ("d", "dl"), ("nothing", "dang"), ("loop", "loop"), ("none/x", "astray"), ("turn/", "turn"): os.symlink(target, name)
    os.mkfifo("p")
    os.mkfifo("po", 0o400)
    for name, mode in ("blind", 0o300), ("closed", 0o500), ("locked", 0), ("ro", 0o444): os.chmod(name, mode)

def clear(top):
    for entry in list(os.scandir(top)):
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.path, 0o755)
            clear(entry.path)
            os.rmdir(entry.path)
        else:
            os.unlink(entry.path)

def state(top="."):
    found = os.lstat(top)
    told = [(top, found.st_mode, found.st_size if stat.S_ISREG(found.st_mode) else 0, os.readlink(top) if stat.S_ISLNK(found.st_mode) else "")]
    if stat.S_ISDIR(found.st_mode) and found.st_mode & 0o500 == 0o500:
        for name in sorted(os.listdir(top)): told += state(f"{top}/{name}")
    if stat.S_ISREG(found.st_mode) and found.st_mode & 0o400: told += os.listxattr(top)
    return told

def is_pristine():
    try: return (os.fstat(outer).st_mode, state()) == pristine
    except OSError: return False

def empty():
    os.chmod(f"/proc/self/fd/{outer}", 0o755)
    os.fchdir(outer)
    clear(".")

def fresh():
    empty()
    os.mkdir("w")
    os.chdir("w")
    build()

def short(path): return "NULL" if path is None else path if len(path) < 40 else f"{path[:8]}..{len(path)}"
def text(path): return None if path is None else path.encode()

def opened(number):
    found, status = os.fstat(number), fcntl.fcntl(number, fcntl.F_GETFL)
    where = os.readlink(f"/proc/self/fd/{number}").rsplit("/", 1)[-1].split(":[")[0].split("#")[0]
    told = f"{stat.filemode(found.st_mode)} {found.st_size} {status:o} {fcntl.fcntl(number, fcntl.F_GETFD)} {where}"
    os.close(number)
    return told

def make(label, call, *arguments, opens=False):
    ctypes.set_errno(0)
    result = call(*arguments)
    if result < 0:
        print(label, errno.errorcode.get(ctypes.get_errno(), ctypes.get_errno()))
        return
    print(label, opened(result) if opens else 0)
    if not is_pristine(): fresh()

def bind(path):
    if path is None or len(path) > 100: return 0
    with socket.socket(socket.AF_UNIX) as named:
        try: named.bind(path)
        except OSError as error:
            ctypes.set_errno(error.errno)
            return -1
    return 0

def flags(names):
    value = os.O_NONBLOCK
    for name in names.split(): value |= getattr(os, "O_" + name)
    return value

OPENING = ["WRONLY", "RDWR", "WRONLY CREAT", "WRONLY CREAT EXCL", "WRONLY TRUNC", "CREAT", "CREAT EXCL", "TRUNC", "WRONLY NOFOLLOW",
           "WRONLY CREAT NOFOLLOW", "WRONLY DIRECTORY", "CREAT DIRECTORY", "WRONLY CREAT DIRECTORY", "PATH WRONLY", "PATH CREAT EXCL",
           "PATH WRONLY NOFOLLOW", "PATH CREAT DIRECTORY", "PATH TMPFILE WRONLY", "TMPFILE WRONLY", "TMPFILE RDWR", "TMPFILE WRONLY CREAT",
           "TMPFILE WRONLY EXCL", "TMPFILE WRONLY NOFOLLOW", "TMPFILE", "WRONLY RDWR", "WRONLY APPEND TRUNC", "RDWR CREAT TRUNC CLOEXEC"]

ONE = {
    "bind": bind,
    "mkdir": lambda p: libc.mkdir(p, 0o755),
    "mkdirat without descriptor": lambda p: libc.mkdirat(NONE, p, 0o755),
    "mkdirat in no directory": lambda p: libc.mkdirat(0, p, 0o755),
    **{f"mknod {kind:o}": lambda p, kind=kind: libc.mknodat(HERE, p, kind, long(0x501)) for kind in (0o100644, 0o10644, 0o40644, 0o120644, 0o20644, 0o170644)},
    "symlink": lambda p: libc.symlink(b"to", p),
    "symlink to nothing": lambda p: libc.symlink(b"", p),
    "symlink to null": lambda p: libc.symlink(None, p),
    "unlink": lambda p: libc.unlink(p),
    "unlinkat with odd flags": lambda p: libc.unlinkat(HERE, p, 0x400),
    "unlinkat without descriptor": lambda p: libc.unlinkat(NONE, p, 0),
    "rmdir": lambda p: libc.rmdir(p),
    "chmod": lambda p: libc.chmod(p, 0o600),
    "fchmodat without descriptor": lambda p: libc.fchmodat(NONE, p, 0o600, 0),
    "chown": lambda p: libc.chown(p, ME, -1),
    "lchown": lambda p: libc.lchown(p, ME, -1),
    "chown to another": lambda p: libc.chown(p, 4321, -1),
    "chown to another group": lambda p: libc.chown(p, -1, 4321),
    "fchownat with odd flags": lambda p: libc.fchownat(HERE, p, ME, -1, 0x4000),
    "fchownat with an empty path": lambda p: libc.fchownat(HERE, p, ME, -1, 0x1000),
    "truncate": lambda p: libc.truncate(p, long(2)),
    "truncate to less than nothing": lambda p: libc.truncate(p, long(-1)),
    "truncate to too much": lambda p: libc.truncate(p, long(2**62)),
    "setxattr": lambda p: libc.setxattr(p, b"user.a", b"v", size(1), 0),
    "lsetxattr": lambda p: libc.lsetxattr(p, b"user.a", b"v", size(1), 0),
    "setxattr with odd flags": lambda p: libc.setxattr(p, b"user.a", b"v", size(1), 8),
    "setxattr with too much": lambda p: libc.setxattr(p, b"user.a", b"v", size(70000), 0),
    "setxattr without a name": lambda p: libc.setxattr(p, b"", b"v", size(1), 0),
    "setxattr of an odd name": lambda p: libc.setxattr(p, b"odd.a", b"v", size(1), 0),
    "setxattr of null": lambda p: libc.setxattr(p, b"user.a", None, size(1), 0),
    "removexattr": lambda p: libc.removexattr(p, b"user.a"),
    "removexattr of a long name": lambda p: libc.removexattr(p, b"user." + b"a" * 300),
    "utimensat": lambda p: libc.utimensat(HERE, p, None, 0),
    "utimensat with odd flags": lambda p: libc.utimensat(HERE, p, None, 0x4000),
    "utimensat of a link": lambda p: libc.utimensat(HERE, p, None, 0x100),
    "openat without descriptor": lambda p: libc.openat(NONE, p, os.O_CREAT | os.O_WRONLY, 0o644),
    "openat in no directory": lambda p: libc.openat(0, p, os.O_CREAT | os.O_WRONLY, 0o644),
}

TWO = {
    "rename": lambda a, b: libc.rename(a, b),
    **{f"renameat2 {value}": lambda a, b, value=value: libc.renameat2(HERE, a, HERE, b, value) for value in (1, 2, 3, 8)},
    "renameat without descriptor": lambda a, b: libc.renameat(NONE, a, HERE, b),
    "renameat to none": lambda a, b: libc.renameat(HERE, a, NONE, b),
    "renameat in no directory": lambda a, b: libc.renameat(0, a, HERE, b),
    "link": lambda a, b: libc.link(a, b),
    **{f"linkat {value:x}": lambda a, b, value=value: libc.linkat(HERE, a, HERE, b, value) for value in (0x400, 0x1000, 0x100)},
    "linkat without descriptor": lambda a, b: libc.linkat(NONE, a, HERE, b, 0),
    "linkat to none": lambda a, b: libc.linkat(HERE, a, NONE, b, 0),
}

DESCRIPTORS = {
    "read": lambda: os.open("f", os.O_RDONLY), "write": lambda: os.open("f", os.O_WRONLY), "place": lambda: os.open("f", os.O_PATH),
    "directory": lambda: os.open("d", os.O_RDONLY), "place of a directory": lambda: os.open("d", os.O_PATH),
    "place of a link": lambda: os.open("l", os.O_PATH | os.O_NOFOLLOW), "fifo": lambda: os.open("p", os.O_RDONLY | os.O_NONBLOCK),
    "null": lambda: os.open("/dev/null", os.O_RDWR), "unreadable": lambda: os.open("locked", os.O_PATH),
    "unnamed": lambda: os.open(".", os.O_TMPFILE | os.O_RDWR), "memory": lambda: os.memfd_create("m"),
    "socket": lambda: socket.socket(socket.AF_UNIX).detach(), "closed": lambda: NONE,
}
by_number = lambda n: f"/proc/self/fd/{n}".encode()
OF_DESCRIPTORS = {
    "fchmod": lambda n: libc.fchmod(n, 0o600),
    "fchown": lambda n: libc.fchown(n, ME, -1),
    "fchown to another": lambda n: libc.fchown(n, 4321, -1),
    "fsetxattr": lambda n: libc.fsetxattr(n, b"user.a", b"v", size(1), 0),
    "fremovexattr": lambda n: libc.fremovexattr(n, b"user.a"),
    "futimens": lambda n: libc.futimens(n, None),
    "linkat": lambda n: libc.linkat(n, b"", HERE, b"new", 0x1000),
    "linkat to what is there": lambda n: libc.linkat(n, b"", HERE, b"g", 0x1000),
    "linkat without the flag": lambda n: libc.linkat(n, b"", HERE, b"new", 0),
    "linkat by number": lambda n: libc.linkat(HERE, by_number(n), HERE, b"new", 0x400),
    "fchownat": lambda n: libc.fchownat(n, b"", ME, -1, 0x1000),
    "chmod by number": lambda n: libc.chmod(by_number(n), 0o600),
    "truncate by number": lambda n: libc.truncate(by_number(n), long(1)),
    "setxattr by number": lambda n: libc.setxattr(by_number(n), b"user.a", b"v", size(1), 0),
    "unlink by number": lambda n: libc.unlink(by_number(n)),
    "rename by number": lambda n: libc.rename(by_number(n), b"new"),
    "rename to a number": lambda n: libc.rename(b"g", by_number(n)),
    "mkdirat": lambda n: libc.mkdirat(n, b"new", 0o755),
    "unlinkat": lambda n: libc.unlinkat(n, b"in", 0),
}
REOPENING = ["WRONLY", "RDWR", "WRONLY TRUNC", "WRONLY CREAT", "WRONLY NOFOLLOW", "WRONLY CREAT EXCL", "CREAT", "TMPFILE WRONLY",
             "PATH WRONLY", "WRONLY DIRECTORY", "WRONLY APPEND"]

os.umask(0o22)
os.makedirs("t/w", exist_ok=True)
outer = os.open("t", os.O_PATH | os.O_DIRECTORY)
fresh()
pristine = os.fstat(outer).st_mode, state()
for kind in sys.argv[1:]:
    if kind == "open":
        for names, path in itertools.product(OPENING, PATHS):
            make(f"open {short(path)} {names}", libc.open, text(path), flags(names), 0o640, opens=True)
    elif kind == "one":
        for (name, call), path in itertools.product(ONE.items(), PATHS): make(f"{name} {short(path)}", call, text(path))
    elif kind == "two":
        for (name, call), a, b in itertools.product(TWO.items(), PAIRED, PAIRED):
            make(f"{name} {short(a)} {short(b)}", call, text(a), text(b))
    else:
        acts = [(name, call, False) for name, call in OF_DESCRIPTORS.items()]
        acts += [(f"open {names}", lambda n, value=flags(names): libc.open(by_number(n), value, 0o640), True) for names in REOPENING]
        for (of, get), (name, call, opens) in itertools.product(DESCRIPTORS.items(), acts):
            number = get()
            make(f"{name} {of}", call, number, opens=opens)
            if number != NONE: os.close(number)
empty()
