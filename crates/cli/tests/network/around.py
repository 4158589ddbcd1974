# SPDX-License-Identifier: Apache-2.0 OR MIT
# Tries to reach 93.184.216.40, port 7, which no rule allows, without a connection that the gateway judges. Each line of
# the output is a way that worked. `opened`: a socket was made with which more is possible than to connect by TCP.
import ctypes, os, socket, struct, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)
TARGET = ("93.184.216.40", 7)
FAST_OPEN = 0x20000000

def told(way, attempt):
    try:
        result = attempt()
    except OSError as error:
        print(way, error, file=sys.stderr)
        return
    print(way, "worked" if result is None else result)

def tcp():
    made = socket.socket()
    # In the kernel: a time limit of Python's makes a socket that doesn't wait.
    for which in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        made.setsockopt(socket.SOL_SOCKET, which, struct.pack("=qq", 3, 0))
    return made

def fast_open(send):
    made = tcp()
    send(made)
    made.close()

def address(host, port):
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(host) + bytes(8)

# TCP Fast Open: a message connects.
told("fast open by sendto", lambda: fast_open(lambda s: s.sendto(b"x", FAST_OPEN, TARGET)))
told("fast open by sendmsg", lambda: fast_open(lambda s: s.sendmsg([b"x"], [], FAST_OPEN, TARGET)))
def many(made):
    name = ctypes.create_string_buffer(address(*TARGET))
    data = ctypes.create_string_buffer(b"x")
    vector = struct.pack("=QQ", ctypes.addressof(data), 1)
    vector = ctypes.create_string_buffer(vector)
    message = struct.pack("=QIIQQQQIIII", ctypes.addressof(name), 16, 0, ctypes.addressof(vector), 1, 0, 0, 0, 0, 0, 0)
    message = ctypes.create_string_buffer(message)
    if libc.sendmmsg(made.fileno(), message, 1, FAST_OPEN) < 0:
        raise OSError(ctypes.get_errno(), "sendmmsg")
told("fast open by sendmmsg", lambda: fast_open(many))
def deferred():
    made = tcp()
    made.setsockopt(socket.IPPROTO_TCP, 30, 1)  # TCP_FASTOPEN_CONNECT
    made.connect(TARGET)
    made.send(b"x")
    assert made.recv(9), "closed"
try: told("fast open by connect", deferred)
except AssertionError: pass

# Other families, types and protocols.
for name, family, kind, protocol in [
    ("udp", socket.AF_INET, socket.SOCK_DGRAM, 0), ("udp v6", socket.AF_INET6, socket.SOCK_DGRAM, 0),
    ("raw", socket.AF_INET, socket.SOCK_RAW, 1), ("ping", socket.AF_INET, socket.SOCK_DGRAM, 1),
    ("sctp", socket.AF_INET, socket.SOCK_STREAM, 132), ("sctp packets", socket.AF_INET, socket.SOCK_SEQPACKET, 132),
    ("mptcp", socket.AF_INET, socket.SOCK_STREAM, 262), ("unix", socket.AF_UNIX, socket.SOCK_STREAM, 0),
    ("unix datagrams", socket.AF_UNIX, socket.SOCK_DGRAM, 0), ("netlink", socket.AF_NETLINK, socket.SOCK_RAW, 0),
    ("packets", socket.AF_PACKET, socket.SOCK_DGRAM, 0), ("vsock", socket.AF_VSOCK, socket.SOCK_STREAM, 0),
    ("smc", 43, socket.SOCK_STREAM, 0), ("alg", 38, socket.SOCK_SEQPACKET, 0),
    ("udp with other bits", socket.AF_INET, socket.SOCK_DGRAM | 0x80000 | 0x800, 0),
]:
    told(f"opened {name}", lambda: socket.socket(family, kind, protocol).close())

# A server: others would connect to it.
def serve(bind):
    made = tcp()
    if bind: made.bind(("127.0.0.1", 0))
    made.listen(1)
told("bind", lambda: tcp().bind(("127.0.0.1", 0)))
told("listen", lambda: serve(False))
told("bind and listen", lambda: serve(True))

# A socket that is connected to an allowed host, connected elsewhere.
def again(way):
    made = tcp()
    made.connect(("www.allowed.example", 80))
    way(made)
    if made.getpeername()[0] not in ("127.0.0.1",): raise OSError
    made.sendall(b"GET / HTTP/1.1\r\nHost: www.allowed.example\r\nConnection: close\r\n\r\n")
    answer = made.recv(999)
    if b"allowed.example" in answer or not answer: raise OSError
    return answer
told("connected twice", lambda: again(lambda s: s.connect(TARGET)))
def unspecified(made):
    libc.connect(made.fileno(), ctypes.create_string_buffer(bytes(16)), 16)
    made.connect(TARGET)
told("disconnected first", lambda: again(unspecified))

# The address changes while it is judged, and so does the descriptor.
def races():
    name = ctypes.create_string_buffer(address("127.0.0.1", 9))
    over = False
    def change():
        while not over:
            ctypes.memmove(name, address(*TARGET), 16)
            ctypes.memmove(name, address("127.0.0.1", 9), 16)
    def swap():
        while not over:
            spare = socket.socket()
            os.dup2(spare.fileno(), 200)
            spare.close()
    threads = [threading.Thread(target=one, daemon=True) for one in (change, swap)]
    for thread in threads: thread.start()
    os.dup2(socket.socket().detach(), 200)
    for _ in range(300):
        if libc.connect(200, name, 16) == 0:
            os.set_blocking(200, False)
            try: os.write(200, b"race\n")
            except OSError: pass
    over = True
    for thread in threads: thread.join()
races()

# The connected socket on standard input was passed in. It is what it is, and no more.
if os.path.exists("/proc/self/fd/0") and "socket:" in os.readlink("/proc/self/fd/0"):
    given = socket.socket(fileno=os.dup(0))
    told("passed in, sent elsewhere", lambda: given.sendto(b"x", FAST_OPEN, TARGET) and None)
    def reconnect():
        libc.connect(given.fileno(), ctypes.create_string_buffer(bytes(16)), 16)
        given.connect(TARGET)
        given.sendall(b"passed\n")
        answer = given.recv(99)
        if not answer: raise OSError
        return answer
    told("passed in, connected elsewhere", reconnect)
print("done")
