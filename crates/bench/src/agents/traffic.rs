// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the filtered network: connections by name, bulk transfers, and held connections, each compared with the same
//! client outside.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::AgentsError;
use super::attend::{Step, attend};
use super::names::NAME;
use super::server::Servers;
use crate::bench::{Bench, BenchError};
use crate::goal::{Bound, Goal, Unit};
use crate::interleave::{Pace, Sample, Series};
use crate::launch::{Invocation, LaunchError};
use crate::random::Random;
use crate::rounds::{self, Turn};
use crate::statistics::{Estimate, estimate};
use crate::suite::{gap, rounds};
use crate::summary::Table;

const DIRECT: &str = "direct";
const AGAIN: &str = "direct again (A/A)";
const BY_NAME: &str = "palisade, by name";
const LOOKED_UP: &str = "palisade, name asked for each time";
const REACH: &str = "palisade --reach";

/// The number of bytes in one transfer.
const BULK: u64 = 1 << 30;
const BULK_QUICK: u64 = 256 << 20;
const GIB: f64 = (1_u64 << 30) as f64;
/// The number of connections in one sample.
const CONNECTS: &str = "100";

/// The targets: seconds, ratio, seconds per GiB, bytes.
const FIRST_BYTE: f64 = 0.000_150;
const OF_DIRECT: f64 = 0.9;
const WORK: f64 = 0.3;
const HELD: f64 = 4096.0;
/// The published time of Greywall's `Manager.Initialize()` on Linux.
const INITIALISE_PUBLISHED: f64 = 0.1019;

/// Derives a client's figure from its steps.
type Reading = fn(&[Step]) -> Option<f64>;

struct Client {
    name: &'static str,
    invocation: Invocation,
    reading: Reading,
    /// Derives a second figure from the same steps.
    beside: Reading,
}

/// Starts clients, outside and inside the sandbox.
pub(crate) struct Traffic<'a> {
    pub(crate) palisade: &'a Path,
    helper: PathBuf,
    servers: &'a Servers,
    work: PathBuf,
}

impl<'a> Traffic<'a> {
    /// Copies this program to a place that is visible inside.
    pub(crate) fn prepare(
        palisade: &'a Path,
        servers: &'a Servers,
        work: PathBuf,
    ) -> Result<Self, AgentsError> {
        let helper = work.join("palisade-bench");
        std::env::current_exe()
            .and_then(|own| fs::copy(own, &helper))
            .map_err(|source| AgentsError::Helper { path: helper.clone(), source })?;
        Ok(Self { palisade, helper, servers, work })
    }

    fn direct(&self, words: &[&str]) -> Invocation {
        self.invocation(&[], words)
    }

    /// A client inside, with only the one name allowed and the server's port behind it.
    fn by_name(&self, port: u16, words: &[&str]) -> Invocation {
        let (names, address) = (self.servers.names.to_string(), format!("127.0.0.1:{port}"));
        self.inside(&["--dns", &names, "--allow", NAME, "--allow", &address], words)
    }

    fn inside(&self, options: &[&str], words: &[&str]) -> Invocation {
        let palisade = self.palisade.to_string_lossy();
        let all = [&[palisade.as_ref(), "run"], options, &["--"]].concat();
        self.invocation(&all, words)
    }

    fn invocation(&self, before: &[&str], words: &[&str]) -> Invocation {
        let argv: Vec<OsString> = before
            .iter()
            .map(OsString::from)
            .chain([self.helper.clone().into(), "inside".into()])
            .chain(words.iter().map(OsString::from))
            .collect();
        Invocation { argv, directory: self.work.clone(), variables: Vec::new() }
    }

    /// The time from the start until the first byte of the first connection arrives.
    pub(crate) fn initialise(&self, bench: &mut Bench) -> Result<Table, BenchError> {
        let port = self.servers.echo.port();
        let (local, reach) = (format!("127.0.0.1:{port}"), port.to_string());
        let direct = ["connect", &local, "--times", "20"];
        let named = format!("{NAME}:{port}");
        let client = |name, invocation| Client {
            name,
            invocation,
            reading: |steps| Some(steps.first()?.at),
            beside: |steps| Some(steps.first()?.at - said(steps)?),
        };
        let clients = [
            client(DIRECT, self.direct(&direct)),
            client(AGAIN, self.direct(&direct)),
            client(BY_NAME, self.by_name(port, &["connect", &named, "--times", "20"])),
            client(REACH, self.inside(&["--reach", &reach], &direct)),
        ];
        let title = "initialise: start to the first byte of a connection";
        let (mut table, beside) = self.measure(bench, title, &clients, 2)?;
        for name in [BY_NAME, REACH] {
            table.goals.push(Goal {
                what: format!("{name}: less the same connection again inside"),
                unit: Unit::Seconds,
                bound: Bound::AtMost,
                wanted: None,
                seen: of(&clients, &beside, name, &mut bench.random),
                published: (name == BY_NAME).then_some(INITIALISE_PUBLISHED),
            });
        }
        Ok(table)
    }

    /// Connecting and receiving the first byte.
    pub(crate) fn connect(&self, bench: &mut Bench) -> Result<Table, BenchError> {
        let port = self.servers.echo.port();
        let (local, named, reach) = (format!("127.0.0.1:{port}"), format!("{NAME}:{port}"), port.to_string());
        let direct = ["connect", &local, "--times", CONNECTS];
        let client = |name, invocation| Client { name, invocation, reading: said, beside: |_| None };
        let clients = [
            client(DIRECT, self.direct(&direct)),
            client(AGAIN, self.direct(&direct)),
            client(BY_NAME, self.by_name(port, &["connect", &named, "--times", CONNECTS])),
            client(LOOKED_UP, self.by_name(port, &["connect", &named, "--times", CONNECTS, "--lookup"])),
            client(REACH, self.inside(&["--reach", &reach], &direct)),
        ];
        let title = "connect and first byte (median of 100 in each round)";
        let (mut table, _) = self.measure(bench, title, &clients, 2)?;
        let added = |name: &str| row(&table, name)?.figures.as_ref()?.added;
        let goals =
            [(BY_NAME, Some(FIRST_BYTE)), (LOOKED_UP, None), (REACH, None)].map(|(name, wanted)| Goal {
                what: format!("{name}: added"),
                unit: Unit::Microseconds,
                bound: Bound::AtMost,
                wanted,
                seen: added(name),
                published: None,
            });
        table.goals.extend(goals);
        Ok(table)
    }

    /// A large transfer on one connection.
    pub(crate) fn bulk(&self, bench: &mut Bench) -> Result<Table, BenchError> {
        let port = self.servers.bulk.port();
        let bytes = if bench.options.rounds() < 100 { BULK_QUICK } else { BULK };
        let amount = bytes.to_string();
        let (local, named, reach) = (format!("127.0.0.1:{port}"), format!("{NAME}:{port}"), port.to_string());
        let direct = ["bulk", &local, &amount];
        let client = |name, invocation| Client {
            name,
            invocation,
            reading: said,
            beside: |steps| Some(steps.last()?.cost.work - steps.first()?.cost.work),
        };
        let clients = [
            client(DIRECT, self.direct(&direct)),
            client(AGAIN, self.direct(&direct)),
            client(BY_NAME, self.by_name(port, &["bulk", &named, &amount])),
            client(REACH, self.inside(&["--reach", &reach], &direct)),
        ];
        let title = format!("transfer of {} MiB", bytes >> 20);
        let (mut table, work) = self.measure(bench, &title, &clients, 20)?;
        #[expect(clippy::cast_precision_loss, reason = "a transfer is far below 2⁵³ bytes")]
        let bytes = bytes as f64;
        let mebibyte = f64::from(1 << 20);
        for name in [DIRECT, BY_NAME, REACH] {
            let rates: Vec<f64> = row(&table, name)
                .filter(|row| row.figures.is_some())
                .map(|row| row.series.walls().iter().map(|wall| bytes / mebibyte / wall).collect())
                .unwrap_or_default();
            table.goals.push(Goal {
                what: format!("{name}: rate"),
                unit: Unit::MebibytesPerSecond,
                bound: Bound::AtLeast,
                wanted: None,
                seen: estimate(&rates, &mut bench.random),
                published: None,
            });
        }
        for name in [BY_NAME, REACH] {
            let ratio = row(&table, name).and_then(|row| row.figures.as_ref()?.ratio);
            // The reciprocal swaps the interval's ends.
            let of_direct = ratio.map(|ratio| Estimate {
                median: ratio.median.recip(),
                low: ratio.high.recip(),
                high: ratio.low.recip(),
                single: ratio.single,
            });
            table.goals.push(Goal {
                what: format!("{name}: of direct"),
                unit: Unit::Ratio,
                bound: Bound::AtLeast,
                wanted: Some(OF_DIRECT),
                seen: of_direct,
                published: None,
            });
            let each: Vec<Vec<f64>> = work
                .iter()
                .map(|work| work.iter().map(|seconds| seconds / (bytes / GIB)).collect())
                .collect();
            table.goals.push(Goal {
                what: format!("{name}: the sandbox's processor time a GiB"),
                unit: Unit::WorkPerGibibyte,
                bound: Bound::AtMost,
                wanted: Some(WORK),
                seen: of(&clients, &each, name, &mut bench.random),
                published: None,
            });
        }
        Ok(table)
    }

    /// Many connections at the same time.
    pub(crate) fn held(&self, bench: &mut Bench) -> Result<Table, BenchError> {
        super::client::more_descriptors();
        let port = self.servers.hold.port();
        let connections = bench.options.agents.connections;
        let number = connections.to_string();
        let (local, named, reach) = (format!("127.0.0.1:{port}"), format!("{NAME}:{port}"), port.to_string());
        let direct = ["hold", &local, &number];
        let client = |name, invocation| Client {
            name,
            invocation,
            reading: said,
            beside: |steps| {
                let bytes = |step: &Step| step.cost.memory as f64;
                Some(bytes(steps.last()?) - bytes(steps.first()?))
            },
        };
        let clients = [
            client(DIRECT, self.direct(&direct)),
            client(AGAIN, self.direct(&direct)),
            client(BY_NAME, self.by_name(port, &["hold", &named, &number])),
            client(REACH, self.inside(&["--reach", &reach], &direct)),
        ];
        let title = format!("{connections} connections held (time of each)");
        let (mut table, memory) = self.measure(bench, &title, &clients, 20)?;
        #[expect(clippy::cast_precision_loss, reason = "fewer than 2⁵³ connections")]
        let more = connections.saturating_sub(1).max(1) as f64;
        let each: Vec<Vec<f64>> =
            memory.iter().map(|bytes| bytes.iter().map(|bytes| bytes / more).collect()).collect();
        for name in [BY_NAME, REACH] {
            table.goals.push(Goal {
                what: format!("{name}: memory a connection, outside kernel buffers"),
                unit: Unit::Bytes,
                bound: Bound::AtMost,
                wanted: Some(HELD),
                seen: of(&clients, &each, name, &mut bench.random),
                published: None,
            });
        }
        Ok(table)
    }

    /// Runs all clients in all rounds, in random order. Returns the table and, for each client, the second figures.
    fn measure(
        &self,
        bench: &mut Bench,
        title: &str,
        clients: &[Client],
        divisor: usize,
    ) -> Result<(Table, Vec<Vec<f64>>), BenchError> {
        let pace = Pace {
            rounds: rounds(bench.options.rounds(), divisor),
            warm_up: 1,
            gap: gap(bench.options.gap),
            burst: 1,
        };
        bench.say(&format!("{title}: {} rounds of {} clients", pace.rounds, clients.len()));
        let begun = |client: &Client| Series::begun(client.name, client.invocation.display());
        let series = clients.iter().map(begun).collect();
        let mut beside = vec![Vec::new(); clients.len()];
        let summarise = |rounds, series, random: &mut _| Table::summarise(title, rounds, 1, series, random);
        let raced = rounds::run(bench, &pace, series, summarise, |bench, index, round| {
            let (limit, stop) = (bench.options.limit(), bench.session.stop());
            let client = &clients[index];
            let steps = match attend(&client.invocation, &self.helper, 2, limit, stop) {
                Err(LaunchError::Stopped) => return Ok(Turn::Stopped),
                steps => steps.map_err(AgentsError::from)?,
            };
            Ok(Turn::Ended(steps.and_then(|steps| client.sample(&steps)).map(|(sample, found)| {
                if round.is_some() {
                    beside[index].extend(found);
                }
                sample
            })))
        })?;
        if raced.stopped {
            let table = summarise(pace.rounds, raced.series, &mut bench.random);
            match bench.keep_begun(table)? {}
        }
        let series = raced.series;
        for (series, beside) in series.iter().zip(&mut beside) {
            // A row that failed has no figures.
            if !series.valid() {
                beside.clear();
            }
        }
        Ok((Table::summarise(title, pace.rounds, 1, series, &mut bench.random), beside))
    }
}

impl Client {
    fn sample(&self, steps: &[Step]) -> Result<(Sample, Option<f64>), crate::workload::Failure> {
        let silent =
            || crate::workload::Failure::Proof { why: "the run didn't report what it measured".to_owned() };
        let wall = (self.reading)(steps).ok_or_else(silent)?;
        let (first, last) = (steps.first().ok_or_else(silent)?, steps.last().ok_or_else(silent)?);
        let sample = Sample {
            round: 0,
            wall,
            user: last.cost.work - first.cost.work,
            system: 0.0,
            max_rss: last.cost.memory,
            exit_code: 0,
        };
        Ok((sample, (self.beside)(steps)))
    }
}

/// The figure that the client prints at its last step.
fn said(steps: &[Step]) -> Option<f64> {
    steps.last()?.figures.get("seconds").copied()
}

fn row<'t>(table: &'t Table, name: &str) -> Option<&'t crate::summary::Row> {
    table.rows.iter().find(|row| row.series.name == name)
}

fn of(clients: &[Client], values: &[Vec<f64>], name: &str, random: &mut Random) -> Option<Estimate> {
    let index = clients.iter().position(|client| client.name == name)?;
    estimate(values.get(index)?, random)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::attend::Cost;
    use std::collections::BTreeMap;

    fn step(at: f64, seconds: Option<f64>, work: f64, memory: u64) -> Step {
        let figures: BTreeMap<_, _> =
            seconds.map(|seconds| ("seconds".to_owned(), seconds)).into_iter().collect();
        Step { at, figures, cost: Cost { work, memory } }
    }

    fn client() -> Client {
        let invocation = Invocation { argv: Vec::new(), directory: "/".into(), variables: Vec::new() };
        Client {
            name: DIRECT,
            invocation,
            reading: said,
            beside: |steps| Some(steps.first()?.at - said(steps)?),
        }
    }

    #[test]
    fn a_sample_is_between_steps() {
        let steps = [step(0.5, None, 1.0, 10), step(0.9, Some(0.2), 1.5, 30)];
        let (sample, beside) = client().sample(&steps).unwrap();
        assert_eq!((sample.wall, sample.user, sample.max_rss), (0.2, 0.5, 30));
        assert!((beside.unwrap() - 0.3).abs() < 1e-12);
    }

    #[test]
    fn a_client_that_says_nothing_is_a_failure() {
        let steps = [step(0.5, None, 1.0, 10), step(0.9, None, 1.5, 30)];
        assert!(client().sample(&steps).is_err());
        assert!(client().sample(&[]).is_err());
    }
}
