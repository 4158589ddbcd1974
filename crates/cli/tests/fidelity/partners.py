# SPDX-License-Identifier: Apache-2.0 OR MIT
# A writer opens a FIFO while signals come for it, and a reader opens it: the reader always gets what the writer writes.
import os, random, signal, sys, threading, time

lost = 0
for _ in range(int(sys.argv[1])):
    os.mkfifo("fifo")
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    writer = os.fork()
    if writer == 0:
        signal.signal(signal.SIGUSR1, lambda *_: None)
        signal.alarm(10)
        # Python calls again after EINTR.
        end = os.open("fifo", os.O_WRONLY)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        os.write(end, b"word")
        os._exit(0)
    time.sleep(random.choice([0, .001, .005, .02]))
    over = threading.Event()

    def disturb():
        while not over.wait(random.choice([0, .0005, .002, .01])):
            os.kill(writer, signal.SIGUSR1)

    disturber = threading.Thread(target=disturb)
    disturber.start()
    time.sleep(random.random() * .03)
    with open("fifo", "rb") as reader:
        got = reader.read()
    over.set()
    disturber.join()
    if got != b"word":
        lost += 1
        os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    os.unlink("fifo")
print("lost", lost)
