# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tries each way to send a message to the socket `argv[1]`, which is another's: from each kind of socket, by each call, and
with a thread that changes the address, or the descriptor, while the call is under way."""
import ctypes, os, socket, struct, sys, threading

UNIX, DATAGRAM = socket.AF_UNIX, socket.SOCK_DGRAM
theirs = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)


def tried(call, *arguments):
    try:
        return call(*arguments)
    except OSError as error:
        return error.strerror


pair, _other = socket.socketpair(UNIX, DATAGRAM)
alone = socket.socket(UNIX, DATAGRAM)
unprocessed = socket.socket(UNIX, socket.SOCK_RAW)
for sock in pair, alone, unprocessed:
    for name in theirs, os.path.relpath(theirs), "link":
        print(tried(sock.sendto, b"sendto", name), tried(sock.sendmsg, [b"sendmsg"], [], 0, name))
print(tried(alone.connect, theirs), tried(alone.send, b"connected"))


def address(path):
    return struct.pack("H", UNIX) + path.encode() + b"\0"


own = socket.socket(UNIX, DATAGRAM)
own.bind(os.path.dirname(theirs) + "/own-socket-of-mine")
own_address, their_address = address(own.getsockname()), address(theirs)
room = max(len(own_address), len(their_address))
own_address, their_address = own_address.ljust(room, b"\0"), their_address.ljust(room, b"\0")
name = ctypes.create_string_buffer(own_address, room)
data = ctypes.create_string_buffer(b"race")
parts = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(data), 4))
header = struct.pack("QIIQQQQII", ctypes.addressof(name), room, 0, ctypes.addressof(parts), 1, 0, 0, 0, 0)
vector = ctypes.create_string_buffer(header + bytes(8))
named = ctypes.create_string_buffer(their_address, room)
to_theirs = struct.pack("QIIQQQQII", ctypes.addressof(named), room, 0, ctypes.addressof(parts), 1, 0, 0, 0, 0)
data.value = b"many"
print(libc.sendmmsg(pair.fileno(), ctypes.create_string_buffer(to_theirs + bytes(8)), 1, 0))
data.value = b"race"

# A stream to begin with, whose messages name nobody, and a datagram socket in its place.
stream, kept = socket.socketpair()
number = 200
over = False


def change():
    while not over:
        ctypes.memmove(name, own_address, room)
        os.dup2(stream.fileno(), number)
        ctypes.memmove(name, their_address, room)
        os.dup2(alone.fileno(), number)


os.dup2(stream.fileno(), number)
thread = threading.Thread(target=change)
thread.start()
MSG_DONTWAIT = socket.MSG_DONTWAIT
for turn in range(int(sys.argv[2])):
    libc.sendmsg(alone.fileno(), vector, MSG_DONTWAIT)
    libc.sendmmsg(alone.fileno(), vector, 1, MSG_DONTWAIT)
    libc.sendto(alone.fileno(), data, 4, MSG_DONTWAIT, name, room)
    libc.connect(alone.fileno(), name, room)
    libc.send(alone.fileno(), data, 4, MSG_DONTWAIT)
    libc.sendmsg(number, to_theirs, MSG_DONTWAIT)
    for sock in own, kept:
        while not isinstance(tried(sock.recv, 9, MSG_DONTWAIT), str):
            pass
over = True
thread.join()
print("done")
