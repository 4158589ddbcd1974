// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The daemon's command line options.

use crate::confinement::OtherCalls;
use clap::CommandFactory;
use std::io;
use std::path::PathBuf;

/// Decides for the whole host what may execute.
#[derive(Debug, Clone, clap::Parser)]
#[command(name = "palisaded", version, max_term_width = 100)]
pub(crate) struct Options {
    /// Where settings, rules and trust files are
    #[arg(long, value_name = "DIRECTORY", default_value = "/etc/palisade")]
    pub(crate) config: PathBuf,
    /// Where the trust database is
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib/palisade")]
    pub(crate) state: PathBuf,
    /// Where the command line reaches it
    #[arg(long, value_name = "SOCKET", default_value = palisade_protocol::guard::SOCKET)]
    pub(crate) socket: PathBuf,
    /// Only say what would be refused, whatever the settings say
    #[arg(long)]
    pub(crate) permissive: bool,
    /// Enforce rules that would stop the host
    #[arg(long)]
    pub(crate) force: bool,
    /// Check settings and rules, and end
    #[arg(long)]
    pub(crate) check: bool,
    /// Ask about every open and exec, also where the kernel could answer by itself
    #[arg(long)]
    pub(crate) ask_always: bool,
    /// Run only one part: the guard, or scopes
    #[arg(long, value_enum, value_name = "PART")]
    pub(crate) only: Option<Part>,
    /// Where `palisade scope` reaches it; otherwise scope.sock beside the other
    #[arg(long, value_name = "SOCKET")]
    pub(crate) scope_socket: Option<PathBuf>,
    /// How far below a mark a process may be, whatever the settings say
    #[arg(long, value_name = "DEPTH")]
    pub(crate) enforcement_depth: Option<palisade_protocol::scope::Depth>,
    /// Where the scopes' programs are pinned
    #[arg(long, value_name = "DIRECTORY", default_value = "/sys/fs/bpf/palisade/scope")]
    pub(crate) scope_pins: PathBuf,
    /// Hold scopes as if the kernel lacked this, too; for tests
    #[arg(long, hide = true, value_enum, value_delimiter = ',', value_name = "FEATURE")]
    pub(crate) without: Vec<Feature>,
    /// What becomes of system calls that it doesn't need; anything but refusing is for tests
    #[arg(long, hide = true, value_enum, default_value = "refuse", value_name = "ANSWER")]
    pub(crate) other_calls: OtherCalls,
    /// Try such calls, and say what became of them; for tests
    #[arg(long, hide = true)]
    pub(crate) prove_calls: bool,
    /// Be executed below a mark, for another palisaded; not for people
    #[arg(long, hide = true)]
    pub(crate) prove_refusal: bool,
    /// Read package databases for another palisaded; not for people
    #[arg(long, hide = true)]
    pub(crate) load_trust: bool,
    /// Answer while another palisaded is stopped; not for people
    #[arg(long, hide = true)]
    pub(crate) stand_by: bool,
    /// Ask libmagic for another palisaded; not for people
    #[arg(long, hide = true)]
    pub(crate) tell_kinds: bool,
    /// Print its page of the manual; for packages
    #[arg(long, hide = true)]
    pub(crate) man: bool,
}

/// The manual page palisaded.8, made from the parser's own table.
pub(crate) fn manual() -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Options::command()).section("8").render(&mut page)?;
    page.extend(SEE_ALSO.as_bytes());
    Ok(page)
}

/// Sections of the manual page: exit status, signals, and related pages.
const SEE_ALSO: &str = r#".SH "EXIT STATUS"
0 when it was asked to end; 1 when the host doesn't give what it needs; 2 when an option, a setting or a rule is wrong.
.SH SIGNALS
.TP
SIGHUP
Read settings and rules again; what can't be understood changes nothing.
.TP
SIGTERM, SIGINT
End: from then on everything may be executed.
.SH "SEE ALSO"
.BR palisade\-guard (1)
"#;
/// What older kernels lack and scopes can do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Feature {
    /// Processes by their numbers, in programs that user space runs.
    TaskByNumber,
    /// Storage in tasks.
    TaskStorage,
    /// A buffer for events.
    RingBuffer,
}

/// A part of the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// What may execute on this host.
    Guard,
    /// Marked subtrees of processes.
    Scopes,
}
