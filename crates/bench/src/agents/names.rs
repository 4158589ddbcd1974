// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A name server that knows one name, so that names can be measured without root and without the internet.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;

/// The only name, in a domain that can't be registered (RFC 2606).
pub(crate) const NAME: &str = "bench.example";

const HEADER: usize = 12;
const A: u16 = 1;
/// In seconds. It is longer than a round, so that a name is asked for only once per round.
const TTL: u32 = 300;
/// The flags of an answer: the question is copied, and the truncation bit is clear.
const RESPONSE: u8 = 0x84;
const RECURSION: u8 = 0x80;
const NO_SUCH_NAME: u8 = 3;

/// Answers on a loopback port until this process ends.
pub(crate) fn serve() -> io::Result<SocketAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = socket.local_addr()?;
    thread::spawn(move || {
        let mut buffer = [0; 1500];
        loop {
            match socket.recv_from(&mut buffer) {
                Ok((length, from)) => {
                    if let Some(answer) = buffer.get(..length).and_then(answer) {
                        // A client that has ended needs no answer.
                        let _ = socket.send_to(&answer, from);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_error) => return,
            }
        }
    });
    Ok(address)
}

/// The answer to one question: the loopback address for [`NAME`], an empty answer for other types of it, and no other names.
pub(crate) fn answer(query: &[u8]) -> Option<Vec<u8>> {
    let header = query.get(..HEADER)?;
    // Ignore answers, other operations than queries, and messages without exactly one question.
    if header[2] & 0xf8 != 0 || header[4..6] != [0, 1] {
        return None;
    }
    let mut labels: Vec<String> = Vec::new();
    let mut at = HEADER;
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        // A question has no earlier name to which a compression pointer could refer.
        if length > 63 {
            return None;
        }
        labels.push(String::from_utf8_lossy(query.get(at..at + length)?).to_ascii_lowercase());
        at += length;
    }
    let kind = u16::from_be_bytes([*query.get(at)?, *query.get(at + 1)?]);
    let question = query.get(HEADER..at + 4)?;
    let (known, count) = (labels.join(".") == NAME, u8::from(kind == A));
    let (rcode, count) = if known { (0, count) } else { (NO_SUCH_NAME, 0) };
    let mut answer = Vec::with_capacity(query.len() + 16);
    answer.extend([header[0], header[1], RESPONSE | (header[2] & 1), RECURSION | rcode]);
    answer.extend([0, 1, 0, count, 0, 0, 0, 0]);
    answer.extend(question);
    if count > 0 {
        // The name as in the question, type A, class IN.
        answer.extend([0xc0, 12, 0, 1, 0, 1]);
        answer.extend(TTL.to_be_bytes());
        answer.extend([0, 4]);
        answer.extend(Ipv4Addr::LOCALHOST.octets());
    }
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn question(name: &str, kind: u8) -> Vec<u8> {
        let mut query = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
        for label in name.split('.') {
            query.push(u8::try_from(label.len()).unwrap());
            query.extend(label.as_bytes());
        }
        query.extend([0, 0, kind, 0, 1]);
        // EDNS, as resolvers send it.
        query.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
        query
    }

    #[test]
    fn the_name_leads_to_the_loopback() {
        let answer = answer(&question("Bench.Example", 1)).unwrap();
        assert_eq!(&answer[..12], [0xab, 0xcd, 0x85, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        assert!(answer.ends_with(&[0, 4, 127, 0, 0, 1]));
    }

    #[test]
    fn it_has_no_other_address_and_there_is_no_other_name() {
        let other = answer(&question(NAME, 28)).unwrap();
        assert_eq!((other[3] & 15, other[7]), (0, 0));
        let stranger = answer(&question("www.bench.example", 1)).unwrap();
        assert_eq!((stranger[3] & 15, stranger[7]), (3, 0));
    }

    #[test]
    fn what_is_no_question_gets_no_answer() {
        let whole = question(NAME, 1);
        for length in 0..whole.len() - 11 {
            assert!(answer(&whole[..length]).is_none(), "{length}");
        }
        let mut response = whole.clone();
        response[2] |= 0x80;
        assert!(answer(&response).is_none());
        let mut pointer = whole;
        pointer[12] = 0xc0;
        assert!(answer(&pointer).is_none());
    }

    #[test]
    fn it_answers_on_the_loopback() {
        let server = serve().unwrap();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket.send_to(&question(NAME, 1), server).unwrap();
        let mut buffer = [0; 512];
        let length = socket.recv(&mut buffer).unwrap();
        assert!(buffer[..length].ends_with(&[127, 0, 0, 1]));
    }
}
