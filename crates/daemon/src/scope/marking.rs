// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Marks processes: puts them into a scope, and takes them out again.

use super::error::ScopeError;
use super::group::Group;
use super::process;
use super::service::{Known, Service, State};
use super::translation::{boot_time, of_kernel, profile_for_kernel};
use palisade_bpf::scope::{Outcome, Scope, ScopePrograms};
use palisade_protocol::scope::{Depth, Marked, Verdict, Wanted};
use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// How many generations of parents are checked for a scope.
const GENERATIONS: usize = 256;
/// The most processes of one subtree.
const MOST: usize = 32_768;

impl Service {
    /// The scope that a process or one of its parents is in.
    pub(super) fn inside(state: &State, pid: u32) -> Option<u32> {
        let programs = state.programs.as_ref()?;
        let mut next = Some(pid);
        for _ in 0..GENERATIONS {
            let pid = next?;
            if let Ok(Some(scope)) = programs.scope_of(pid) {
                return Some(scope);
            }
            next = process::parent(pid);
        }
        None
    }

    /// Marks the calling process: its next exec is the launch.
    pub(super) fn mark_launcher(
        &self,
        uid: u32,
        pidfd: BorrowedFd<'_>,
        wanted: &Wanted,
    ) -> Result<Marked, ScopeError> {
        let pid = process::number(pidfd).ok_or(ScopeError::NoProcess(0))?;
        let mut state = self.state();
        let programs = self.ensure(&mut state)?;
        if let Some(scope) = Self::inside(&state, pid) {
            return Err(ScopeError::Inside(scope));
        }
        Self::must_refuse(&state, &programs, wanted.verdict)?;
        let id = self.open_scope(&mut state, &programs, uid, pid, wanted, false)?;
        let result = mark(&programs, &state, id, pid, pidfd, false);
        self.opened(&mut state, &programs, id, wanted, result.map(|()| 1))
    }

    /// Marks a running process, and its descendants unless `alone`.
    pub(super) fn mark_running(
        &self,
        uid: u32,
        asker: u32,
        pid: u32,
        alone: bool,
        wanted: &Wanted,
    ) -> Result<Marked, ScopeError> {
        let pidfd = process::open(pid).ok_or(ScopeError::NoProcess(pid))?;
        if uid != 0 && process::user(pid) != Some(uid) {
            return Err(ScopeError::NotYours { pid });
        }
        let harmless = matches!(wanted.verdict, Verdict::Watch | Verdict::Warn);
        if pid == std::process::id() {
            return Err(ScopeError::Own(pid));
        }
        if pid == 1 && !harmless {
            return Err(ScopeError::Vital { pid });
        }
        let mut state = self.state();
        let programs = self.ensure(&mut state)?;
        if let Some(scope) = Self::inside(&state, asker) {
            return Err(ScopeError::Inside(scope));
        }
        if let Some(scope) = Self::inside(&state, pid) {
            return Err(ScopeError::Taken { pid, scope });
        }
        Self::must_refuse(&state, &programs, wanted.verdict)?;
        let id = self.open_scope(&mut state, &programs, uid, pid, wanted, false)?;
        let mut result = mark(&programs, &state, id, pid, pidfd.as_fd(), true).map(|()| 1);
        let deep = matches!(state.settings.depth, Depth::PropagateOnFork | Depth::Cgroup);
        if let Ok(processes) = &mut result
            && !alone
            && deep
        {
            *processes += descend(&programs, &state, id, uid, pid);
        }
        self.opened(&mut state, &programs, id, wanted, result)
    }

    /// Marks a shell for one line. What the shell starts from now on is in the scope; what it started before isn't.
    pub(super) fn mark_line(
        &self,
        uid: u32,
        asker: u32,
        pid: u32,
        wanted: &Wanted,
    ) -> Result<Marked, ScopeError> {
        let pidfd = process::open(pid).ok_or(ScopeError::NoProcess(pid))?;
        if uid != 0 && process::user(pid) != Some(uid) {
            return Err(ScopeError::NotYours { pid });
        }
        if pid == std::process::id() || pid == 1 {
            return Err(ScopeError::Vital { pid });
        }
        let mut state = self.state();
        let programs = self.ensure(&mut state)?;
        if state.settings.depth == Depth::Cgroup {
            return Err(ScopeError::LineInGroup);
        }
        if let Some(scope) = Self::inside(&state, asker) {
            return Err(ScopeError::Inside(scope));
        }
        Self::unmark_own(&state, &programs, uid, pid)?;
        if let Some(scope) = Self::inside(&state, pid) {
            return Err(ScopeError::Taken { pid, scope });
        }
        let id = self.open_scope(&mut state, &programs, uid, pid, wanted, true)?;
        let result = mark(&programs, &state, id, pid, pidfd.as_fd(), true).map(|()| 1);
        self.opened(&mut state, &programs, id, wanted, result)
    }

    /// Removes the mark of a shell of this user, when its line is over.
    pub(super) fn release(&self, uid: u32, asker: u32, pid: u32) -> Result<(), ScopeError> {
        let mut state = self.state();
        let programs = self.ensure(&mut state)?;
        if let Some(scope) = Self::inside(&state, asker) {
            return Err(ScopeError::Inside(scope));
        }
        if uid != 0 && process::user(pid) != Some(uid) {
            return Err(ScopeError::NotYours { pid });
        }
        Self::unmark_own(&state, &programs, uid, pid)
    }

    /// Removes only the mark of a shell that was marked for a line, and only if the user may end the scope.
    fn unmark_own(state: &State, programs: &ScopePrograms, uid: u32, pid: u32) -> Result<(), ScopeError> {
        let Some(id) = programs.scope_of(pid)? else { return Ok(()) };
        let own = state.scopes.get(&id).is_some_and(|known| uid == 0 || known.owner == uid);
        let root = programs.scope(id)?.is_some_and(|held| held.line && held.root == pid);
        if !own || !root {
            return Err(ScopeError::Taken { pid, scope: id });
        }
        programs.unmark(pid)?;
        Ok(())
    }

    fn open_scope(
        &self,
        state: &mut State,
        programs: &ScopePrograms,
        uid: u32,
        pid: u32,
        wanted: &Wanted,
        line: bool,
    ) -> Result<u32, ScopeError> {
        let id = self.number(state, uid)?;
        let calls = wanted.calls || state.settings.calls;
        programs.open_scope(&Scope {
            id,
            verdict: of_kernel(wanted.verdict),
            owner: uid,
            calls,
            began: boot_time(),
            root: pid,
            label: wanted.label.clone(),
            profile: profile_for_kernel(wanted.profile),
            line,
            ..Scope::default()
        })?;
        // For a line, the caller follows the events and shows them itself, so the scope has no terminal.
        let terminal = if line { None } else { process::terminal(pid) };
        let label = wanted.label.chars().take(256).collect();
        state.scopes.insert(id, Known { owner: uid, label, terminal, profile: wanted.profile, group: None });
        if state.settings.depth == Depth::Cgroup {
            let group = Group::make(id).map_err(ScopeError::Group).and_then(|group| {
                programs.mark_group(group.number, id)?;
                Ok(group)
            });
            match group {
                Ok(group) => {
                    if let Some(known) = state.scopes.get_mut(&id) {
                        known.group = Some(group);
                    }
                }
                Err(error) => {
                    Self::close(state, id)?;
                    return Err(error);
                }
            }
        }
        Ok(id)
    }

    fn opened(
        &self,
        state: &mut State,
        programs: &Arc<ScopePrograms>,
        id: u32,
        wanted: &Wanted,
        result: Result<u32, ScopeError>,
    ) -> Result<Marked, ScopeError> {
        let processes = match result {
            Ok(processes) => processes,
            Err(error) => {
                Self::close(state, id)?;
                return Err(error);
            }
        };
        self.watch_calls(state)?;
        let mut notes = Vec::new();
        if (wanted.calls || state.settings.calls) && programs.lacks().ring_buffer {
            notes.push("this kernel has no ring buffer: rare system calls aren't reported".to_owned());
        }
        Ok(Marked { scope: id, processes, notes })
    }
}

/// Marks a process that a descriptor names. The mark uses the process's number. If the process still lives afterwards, the
/// number was its own.
fn mark(
    programs: &ScopePrograms,
    state: &State,
    id: u32,
    pid: u32,
    pidfd: BorrowedFd<'_>,
    armed: bool,
) -> Result<(), ScopeError> {
    match programs.mark(pid, id, armed)? {
        Outcome::Done | Outcome::Already => {}
        Outcome::NoProcess => return Err(ScopeError::NoProcess(pid)),
        Outcome::Full => return Err(ScopeError::Full),
        Outcome::NoScope => return Err(ScopeError::NoScope(id)),
        Outcome::Taken => {
            let scope = programs.scope_of(pid)?.unwrap_or(0);
            return Err(ScopeError::Taken { pid, scope });
        }
    }
    if let Some(group) = state.scopes.get(&id).and_then(|known| known.group.as_ref()) {
        group.add(pid).map_err(ScopeError::Group)?;
    }
    if !process::lives(pidfd) {
        programs.unmark(pid)?;
        return Err(ScopeError::NoProcess(pid));
    }
    Ok(())
}

/// Marks descendants until all are marked. Children of a marked process are marked at birth. So a process that was missed
/// was born while its parent was unmarked, and the next pass finds it.
fn descend(programs: &ScopePrograms, state: &State, id: u32, uid: u32, root: u32) -> u32 {
    let mut marked = BTreeSet::from([root]);
    let mut count = 0;
    loop {
        let mut found = Vec::new();
        let mut seen = BTreeSet::from([root]);
        let mut left = vec![root];
        while let Some(pid) = left.pop() {
            for child in process::children(pid) {
                if seen.len() < MOST && seen.insert(child) {
                    left.push(child);
                    if !marked.contains(&child) {
                        found.push(child);
                    }
                }
            }
        }
        if found.is_empty() {
            return count;
        }
        for child in found {
            marked.insert(child);
            let own = uid == 0 || process::user(child) == Some(uid);
            if child == std::process::id() || !own || matches!(programs.scope_of(child), Ok(Some(_))) {
                continue;
            }
            let Some(pidfd) = process::open(child) else { continue };
            if mark(programs, state, id, child, pidfd.as_fd(), true).is_ok() {
                count += 1;
            }
        }
    }
}
