// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides which job may start next. It has no I/O and knows jobs by their numbers.

use std::collections::BTreeSet;

/// The properties of a job that matter here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needs {
    /// The groups in which no other job may run at the same time.
    pub(crate) serial: Vec<String>,
    /// Whether nothing else may run.
    pub(crate) exclusive: bool,
    /// How many slots it takes.
    pub(crate) slots: usize,
}

/// Jobs that wait and jobs that run.
#[derive(Debug)]
pub(crate) struct Schedule {
    needs: Vec<Needs>,
    /// In the order in which they should start.
    waiting: Vec<usize>,
    running: BTreeSet<usize>,
    slots: usize,
}

impl Schedule {
    /// Takes the jobs in the order in which they should start. A job that must be alone comes last.
    pub(crate) fn new(needs: Vec<Needs>, slots: usize) -> Schedule {
        let (alone, shared): (Vec<usize>, Vec<usize>) =
            (0..needs.len()).partition(|job| needs[*job].exclusive);
        let waiting = [shared, alone].concat();
        Schedule { needs, waiting, running: BTreeSet::new(), slots: slots.max(1) }
    }

    /// Sets how many slots there are from now on. Running jobs continue.
    pub(crate) fn make_room(&mut self, slots: usize) {
        self.slots = slots.max(1);
    }

    /// The next job that may start now; from here on it counts as running. If a job lacks only slots, the jobs after it must
    /// wait: otherwise small jobs would pass a large one until none are left.
    pub(crate) fn start(&mut self) -> Option<usize> {
        let at = self.waiting.iter().position(|job| self.may_start(*job) || self.lacks_room(*job))?;
        if !self.may_start(self.waiting[at]) {
            return None;
        }
        let job = self.waiting.remove(at);
        self.running.insert(job);
        Some(job)
    }

    /// A job has ended.
    pub(crate) fn end(&mut self, job: usize) {
        self.running.remove(&job);
    }

    /// Whether nothing waits or runs.
    pub(crate) fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    fn may_start(&self, job: usize) -> bool {
        self.running.is_empty()
            || self.may_run_beside(job) && self.used() + self.needs[job].slots <= self.slots
    }

    fn lacks_room(&self, job: usize) -> bool {
        // A job that needs more than all slots waits until no job runs.
        self.needs[job].slots <= self.slots
            && self.may_run_beside(job)
            && self.used() + self.needs[job].slots > self.slots
    }

    fn used(&self) -> usize {
        self.running.iter().map(|job| self.needs[*job].slots).sum()
    }

    fn may_run_beside(&self, job: usize) -> bool {
        let needs = &self.needs[job];
        !needs.exclusive
            && self.running.iter().map(|job| &self.needs[*job]).all(|other| {
                !other.exclusive && !other.serial.iter().any(|group| needs.serial.contains(group))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(serial: &[&str], exclusive: bool, slots: usize) -> Needs {
        Needs { serial: serial.iter().map(|group| (*group).to_owned()).collect(), exclusive, slots }
    }

    #[test]
    fn a_group_runs_one_at_a_time_and_others_go_past_it() {
        let mut schedule =
            Schedule::new(vec![job(&["a"], false, 1), job(&["a"], false, 1), job(&[], false, 1)], 2);
        assert_eq!(schedule.start(), Some(0));
        assert_eq!(schedule.start(), Some(2));
        assert_eq!(schedule.start(), None);
        schedule.end(0);
        assert_eq!(schedule.start(), Some(1));
        schedule.end(1);
        schedule.end(2);
        assert!(schedule.is_done());
    }

    #[test]
    fn what_is_alone_comes_last_and_alone() {
        let mut schedule = Schedule::new(vec![job(&[], true, 1), job(&[], false, 1), job(&[], false, 1)], 4);
        assert_eq!(schedule.start(), Some(1));
        assert_eq!(schedule.start(), Some(2));
        assert_eq!(schedule.start(), None);
        schedule.end(1);
        assert_eq!(schedule.start(), None);
        schedule.end(2);
        assert_eq!(schedule.start(), Some(0));
        assert_eq!(schedule.start(), None);
        assert!(!schedule.is_done());
    }

    #[test]
    fn a_large_job_waits_for_room_and_one_larger_than_all_runs_alone() {
        let mut schedule = Schedule::new(vec![job(&[], false, 9), job(&[], false, 2), job(&[], false, 1)], 2);
        assert_eq!(schedule.start(), Some(0));
        assert_eq!(schedule.start(), None);
        schedule.end(0);
        assert_eq!(schedule.start(), Some(1));
        assert_eq!(schedule.start(), None);
        schedule.end(1);
        assert_eq!(schedule.start(), Some(2));
    }

    #[test]
    fn small_jobs_do_not_keep_a_large_one_waiting() {
        let mut schedule = Schedule::new(
            vec![job(&[], false, 1), job(&[], false, 1), job(&[], false, 2), job(&[], false, 1)],
            2,
        );
        assert_eq!(schedule.start(), Some(0));
        assert_eq!(schedule.start(), Some(1));
        schedule.end(0);
        assert_eq!(schedule.start(), None, "the small one would take the room");
        schedule.end(1);
        assert_eq!(schedule.start(), Some(2));
        assert_eq!(schedule.start(), None);
        schedule.end(2);
        assert_eq!(schedule.start(), Some(3));
    }
}
