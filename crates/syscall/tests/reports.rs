// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests what the launcher reads from a compromised broker: any message gives a report or nothing.

use palisade_syscall::broker::report::{Report, receive};
use palisade_syscall::{Arch, Rules, compile, reply};
use proptest::prelude::*;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use std::os::fd::AsFd;

proptest! {
    #[test]
    fn any_message_is_a_report_or_nothing(
        messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..300), 1..20),
    ) {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        for message in &messages {
            send(&theirs, message, SendFlags::DONTWAIT).unwrap();
        }
        send(&theirs, &postcard::to_allocvec(&Report::Lost { count: 7 }).unwrap(), SendFlags::DONTWAIT).unwrap();
        let heard = receive(ours.as_fd()).unwrap();
        // Whatever came before, a valid report is returned.
        prop_assert!(matches!(heard.last(), Some(Report::Lost { count: 7 })), "{:?}", heard);
        prop_assert!(heard.len() <= messages.len() + 1);
    }

    #[test]
    fn any_condition_is_one_or_an_error(call in "[a-z]{2,8}|prctl|openat|getpid|ioctl", when in ".{0,60}") {
        let given = reply::ReplyAction::Deny(reply::errno("EPERM").unwrap());
        if let Ok(rule) = reply::rule(&call, &when, given, "for the test") {
            prop_assert!(compile(&Rules::deny_list().answered(vec![rule]), Arch::NATIVE).is_ok());
        }
    }

    #[test]
    fn conditions_of_the_grammar_are_read(
        argument in 0u8..5,
        wide in any::<bool>(),
        how in prop::sample::select(vec!["in", "not in", "has"]),
        value in any::<u32>(),
    ) {
        let when = format!("arg{argument}{} {how} {value:#x}", if wide { ":64" } else { "" });
        let (_call, rule) = reply::rule("prctl", &when, reply::ReplyAction::Return(0), "for the test").unwrap();
        prop_assert_eq!(rule.tests.len(), 1);
        prop_assert_eq!(rule.tests[0].argument(), argument);
    }
}
