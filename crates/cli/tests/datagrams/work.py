# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Unix datagram sockets at work, and the calls that are passed on with them. Prints what comes of each."""
import asyncio, ctypes, errno, logging, logging.handlers, os, signal, socket, struct, tempfile, threading, time

UNIX, DATAGRAM = socket.AF_UNIX, socket.SOCK_DGRAM
libc = ctypes.CDLL(None, use_errno=True)
empty = (ctypes.c_ubyte * 56)()


def tried(call, *arguments):
    try:
        return call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]


def raw(*arguments):
    return libc.sendmsg(*arguments), errno.errorcode[ctypes.get_errno()]


def datagram(name=None):
    made = socket.socket(UNIX, DATAGRAM)
    if name is not None:
        made.bind(name)
    return made


def fill(sock):
    """Sends until there is no more room."""
    sock.setblocking(False)
    count = 0
    while (came := tried(sock.sendmsg, [b"x"])) == 1:
        count += 1
    sock.setblocking(True)
    return count, came


os.mkdir("t")
here = os.path.abspath("t")

# Pairs: sent by each call, empty, with descriptors, and to nobody by name.
one, two = socket.socketpair(UNIX, DATAGRAM)
print("pair", one.type == DATAGRAM, one.send(b"x"), two.recv(9), one.sendmsg([b"ab", b"cd"]), two.recv(9))
print("empty", one.send(b""), two.recv(9), one.sendmsg([]), two.recv(9))
pipe = os.pipe()
socket.send_fds(one, [b"fd"], pipe)
text, passed, _, _ = socket.recv_fds(two, 9, 5)
os.write(passed[1], b"hi")
print("descriptors", text, len(passed), os.read(passed[0], 9), tried(socket.send_fds, one, [b"x"], [777]))
# A number that the caller has no file for is nobody's, whatever others have by that number.
unused = [number for number in range(3, 99) if tried(os.fstat, number) == "EBADF"]
print("numbers of others", {tried(socket.send_fds, one, [b"x"], [number]) for number in unused})
print("a pair that names", tried(one.sendto, b"x", "t/none"), tried(one.sendmsg, [b"x"], [], 0, "t/none"))

# Names: here, elsewhere, absolute, abstract; who sent it is answered.
server = datagram(here + "/server")
client = datagram()
print("to a name", client.sendto(b"hello", "t/server"), server.recvfrom(9))
client.bind(here + "/client")
print("again", client.sendto(b"hello", here + "/server"))
text, sender = server.recvfrom(9)
print("from a name", text, os.path.basename(sender), server.sendto(b"reply", sender), client.recv(9))
print("message to a name", client.sendmsg([b"n1", b"n2"], [], 0, here + "/server"), server.recv(9))
client.connect("t/server")
print("connected", client.send(b"z"), server.recv(9), os.path.basename(client.getpeername()))
other = datagram()
with tempfile.TemporaryDirectory() as directory:
    far = datagram(directory + "/s")
    print("elsewhere", other.sendto(b"far", directory + "/s"), far.recv(9))
abstract = datagram(b"\0palisade-test-%d" % os.getpid())
print("abstract", other.sendto(b"q", abstract.getsockname()), abstract.recv(9))

# What fails, fails as ever.
open("t/file", "w").close()
stream = socket.socket(UNIX)
stream.bind("t/stream")
stream.listen()
for name in "t/nothing", "t/file", "t/stream", "t/file/x", b"\0nobody-%d" % os.getpid(), "t/" + "x" * 100:
    print("fails", name[:6], tried(other.sendto, b"x", name), tried(other.sendmsg, [b"x"], [], 0, name), tried(datagram().connect, name))
print("not connected", tried(other.send, b"x"), tried(other.sendmsg, [b"x"]))
print("too long", tried(one.send, bytes(1 << 19)), tried(one.sendmsg, [bytes(1 << 21)]))
print("no socket", raw(999, empty, 0), raw(os.open("t/file", os.O_RDONLY), empty, 0), raw(os.open("t", os.O_PATH), empty, 0))
print("no message", raw(one.fileno(), None, 0), raw(one.fileno(), empty, 1 << 31))
wrong = struct.pack("QIIQQQQII", 0, 0, 0, 0, 2000, 0, 0, 0, 0), struct.pack("QiIQQQQII", 1, -1, 0, 0, 0, 0, 0, 0, 0)
print("wrong", [raw(one.fileno(), text, 0) for text in wrong])
for control in b"x" * 15, b"x" * 16, struct.pack("Qii", 8, 1, 1), struct.pack("Qiii", 24, 1, 1, 3), struct.pack("Qii", 1 << 40, 1, 1):
    buffer = ctypes.create_string_buffer(control, len(control))
    header = struct.pack("QIIQQQQII", 0, 0, 0, 0, 0, ctypes.addressof(buffer), len(control), 0, 0)
    print("control", len(control), raw(one.fileno(), header, 0)[0])


# What the kernel looks for before the path, and before the message.
def to_nothing(sock, text, name):
    address = ctypes.create_string_buffer(struct.pack("H", UNIX) + name + b"\0")
    return libc.sendto(sock.fileno(), text, 4, socket.MSG_NOSIGNAL, address, len(address)), errno.errorcode[ctypes.get_errno()]
mute = datagram()
mute.shutdown(socket.SHUT_WR)
sequence = socket.socket(UNIX, socket.SOCK_SEQPACKET)
print("sooner", [to_nothing(sock, text, b"t/nothing") for sock in (other, mute, sequence, socket.socket(UNIX)) for text in (b"text", 8)])

# Several at once, the third of which goes nowhere.
data = ctypes.create_string_buffer(b"several")
name = ctypes.create_string_buffer(struct.pack("H", UNIX) + b"t/nothing\0")
parts = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(data), 7))
header = struct.pack("QIIQQQQII", 0, 0, 0, ctypes.addressof(parts), 1, 0, 0, 0, 0) + bytes(8)
named = struct.pack("QIIQQQQII", ctypes.addressof(name), 12, 0, ctypes.addressof(parts), 1, 0, 0, 0, 0) + bytes(8)
vector = ctypes.create_string_buffer(header * 2 + named + header)
while tried(two.recv, 9, socket.MSG_DONTWAIT) != "EAGAIN":
    pass
print("several", libc.sendmmsg(one.fileno(), vector, 4, 0), two.recv(9), two.recv(9), vector.raw[56] + vector.raw[64 + 56], vector.raw[128 + 56])
vector = ctypes.create_string_buffer(named)
print("none", libc.sendmmsg(one.fileno(), vector, 1, 0), errno.errorcode[ctypes.get_errno()], libc.sendmmsg(one.fileno(), vector, 0, 0))

# A full receiver: told, waited for, interrupted, in time.
count, came = fill(one)
print("full", came, count > 5)
timer = threading.Timer(0.3, lambda: [two.recv(9) for _ in range(count)])
timer.start()
begun = time.monotonic()
print("waited", one.sendmsg([b"y"]), 0.2 < time.monotonic() - begun < 20)
timer.join()
print(two.recv(9))
fill(one)
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, True)
signal.setitimer(signal.ITIMER_REAL, 0.2)
part = struct.pack("QIIQQQQII", 0, 0, 0, ctypes.addressof(parts), 1, 0, 0, 0, 0)
print("interrupted", raw(one.fileno(), part, 0))
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.2)
timer = threading.Timer(0.6, lambda: [two.recv(9) for _ in range(count)])
timer.start()
print("restarted", libc.sendmsg(one.fileno(), part, 0))
timer.join()
two.recv(9)
fill(one)
one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 200000))
print("in time", raw(one.fileno(), part, 0))
two.close()
print("gone", tried(one.send, b"x"), tried(one.sendmsg, [b"x"]))

# Streams: longer than there is room for, and without anybody there.
ours, theirs = socket.socketpair()
long = os.urandom(2_900_000)
got = bytearray()
def receive():
    while len(got) < len(long):
        got.extend(theirs.recv(1 << 16))
receiver = threading.Thread(target=receive)
receiver.start()
print("long", ours.sendmsg([long[:100_000], long[100_000:]]) == len(long), receiver.join(), got == long)
ours.setblocking(False)
print("part", 0 < ours.sendmsg([bytes(1 << 20)]) < 1 << 20, tried(ours.sendmsg, [b"x"]))
theirs.close()
signal.signal(signal.SIGPIPE, lambda *_: print("SIGPIPE"))
print("closed", tried(ours.sendmsg, [b"x"]), tried(ours.sendmsg, [b"x"], [], socket.MSG_NOSIGNAL))
print("a stream with a name", tried(socket.socket(UNIX).sendmsg, [b"x"], [], 0, "t/stream"))

# Other families.
inet = socket.socket(socket.AF_INET, DATAGRAM)
inet.bind(("127.0.0.1", 0))
asker = socket.socket(socket.AF_INET, DATAGRAM)
print("udp", asker.sendto(b"u", inet.getsockname()), inet.recv(9), asker.sendmsg([b"uu"], [], 0, inet.getsockname()), inet.recv(9))
listener = socket.create_server(("127.0.0.1", 0))
tcp = socket.create_connection(listener.getsockname())
print("tcp", tcp.sendmsg([b"tcp"]), listener.accept()[0].recv(9))

# Libraries.
for path in "/dev/log-of-nobody", "t/nothing":
    print("no log", tried(logging.handlers.SysLogHandler(path)._connect_unixsocket, path))
handler = logging.handlers.SysLogHandler(here + "/server")
handler.emit(logging.makeLogRecord({"msg": "logged"}))
print("log", server.recv(99))
os.environ["NOTIFY_SOCKET"] = here + "/server"
notify = socket.socket(UNIX, DATAGRAM | socket.SOCK_CLOEXEC)
print("notify", notify.sendmsg([b"READY=1"], [], 0, os.environ["NOTIFY_SOCKET"]), server.recv(99))


async def endpoints():
    loop = asyncio.get_running_loop()
    arrived = loop.create_future()

    class Receiver(asyncio.DatagramProtocol):
        def datagram_received(self, data, sender):
            arrived.set_result(data)

    receiving, _ = await loop.create_datagram_endpoint(Receiver, local_addr="t/async", family=UNIX)
    sending, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr="t/async", family=UNIX)
    sending.sendto(b"async")
    print("endpoints", await arrived)
    sending.close()
    receiving.close()


asyncio.run(endpoints())
