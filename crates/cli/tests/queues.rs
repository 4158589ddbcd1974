// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests POSIX message queues: a sandbox has its own and sees no others. (The host's queues: tests/acceptance/network.toml.)

use crate::support::{Place, Run, everybody, job};

/// Makes a queue, sends to it, receives from it, is woken by it, and takes it away.
const WORK: &str = "\
import ctypes, errno, os, sys, threading
l = ctypes.CDLL('librt.so.1', use_errno=True)
l.mq_receive.restype = ctypes.c_ssize_t
def tried(result): return result if result >= 0 else errno.errorcode[ctypes.get_errno()]
name = sys.argv[1].encode()
q = l.mq_open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600, None)
if q < 0: sys.exit('mq_open: ' + errno.errorcode[ctypes.get_errno()])
b = ctypes.create_string_buffer(8192)
t = threading.Thread(target=lambda: l.mq_receive(q, b, 8192, None)); t.start()
print(tried(l.mq_send(q, b'woken', 5, 0))); t.join(); print(b.value.decode())
child = os.fork()
if child == 0:
    q = l.mq_open(name, os.O_WRONLY)
    os._exit(0 if q >= 0 and l.mq_send(q, b'child', 5, 1) == 0 else 1)
print(os.waitpid(child, 0)[1], tried(l.mq_receive(q, b, 8192, None)), b.value[:5].decode())
print(os.listdir('/dev/mqueue') == [sys.argv[1][1:]], open('/dev/mqueue' + sys.argv[1]).read()[:8].strip())
print(tried(l.mq_unlink(name)), tried(l.mq_unlink(name)), os.listdir('/dev/mqueue'))
";

fn name(place: &Place) -> String {
    format!("/palisade-{}-{}", place.uid, place.mark)
}

fn inside(place: &Place, options: &[&str], line: &str) -> Run {
    place.run(options, &["python3", "-c", line, &name(place)])
}

#[test]
fn a_sandbox_has_queues_of_its_own() {
    for place in everybody() {
        if !std::path::Path::new("/proc/sys/fs/mqueue").exists() {
            continue;
        }
        for options in [
            &[][..],
            &["--protect", "off"],
            &["--protect", "mounts"],
            &["--view", "host"],
            &["--view", "closure", "--ro", "/usr"],
            &["--syscalls", "learn"],
        ] {
            for _cold_and_hot in 0..2 {
                let run = inside(&place, options, WORK);
                assert_eq!(
                    run.ok(),
                    "0\nwoken\n0 5 child\nTrue QSIZE:0\n0 ENOENT []",
                    "{options:?}: {run:?}"
                );
            }
        }
        // The next sandbox doesn't find the queue that one left, and neither does the host.
        let leave = "import ctypes, os, sys\n\
            print(ctypes.CDLL('librt.so.1').mq_open(sys.argv[1].encode(), os.O_RDWR | os.O_CREAT, 0o666, None) >= 0)";
        assert_eq!(inside(&place, &[], leave).ok(), "True");
        let find = leave.replace(" | os.O_CREAT", "");
        assert_eq!(inside(&place, &[], &find).ok(), "False");
        let mut python = place.command("python3");
        assert_eq!(job::finish(python.args(["-c", &find, &name(&place)])).ok(), "False");
        // Nothing is executed from there, and nothing but queues made.
        let run = place.sh(&[], "mkdir /dev/mqueue/d 2>/dev/null || echo refused; ls -A /dev/mqueue | wc -l");
        assert_eq!(run.ok(), "refused\n0");
        place.assert_all_dead();
    }
}
