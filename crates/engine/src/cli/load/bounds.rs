//! What the numbers of a load by hand can be, by the names and in the units of its flags.
//!
//! A spec is held to the same limits where it is run, by the names of its fields: those are what a program has written,
//! and a person has never seen.

use std::fmt;
use std::time::Duration;

use contract::Driver;

use super::LoadFlags;
use crate::cli::duration_text;
use crate::failure::Failure;
use crate::limits::{
    CONNECTIONS_MAX, DURATION_MS_MAX, PIPELINE_MAX, PROBES_MAX, PROCESSES_MAX, RATE_MAX, REQUESTS_MAX,
    SLICE_MS_MIN, SOURCES_MAX, SPIN_US_MAX, STAGES_MAX, THREADS_MAX, above_zero, within,
};
use crate::rate::Rate;

/// A run or a part of one is no shorter, by the clock that ends it, and no longer.
const MOMENT: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(DURATION_MS_MAX);

impl LoadFlags {
    /// Refuses what no load can be.
    ///
    /// # Errors
    /// `bad_number` with the flag, or `bad_flag` where two do not go together.
    pub(super) fn check_numbers(&self) -> Result<(), Failure> {
        self.check_counts()?;
        self.check_durations()?;
        self.check_rates()?;
        match self.driver {
            Driver::Epoll => Ok(()),
            _ if self.pipeline > 1 => {
                Err(Failure::request("bad_flag", "-p goes with --driver epoll only: leave out one of them"))
            }
            Driver::Thread => within("-c of --driver thread", self.connections, 1..=THREADS_MAX),
            Driver::IoUring => Ok(()),
        }
    }

    fn check_counts(&self) -> Result<(), Failure> {
        let rows = [
            ("-c", Some(self.connections), 1..=CONNECTIONS_MAX),
            ("--idle", Some(self.idle), 0..=CONNECTIONS_MAX),
            ("--active", self.active, 1..=self.connections),
            ("--probes", Some(self.probes), 0..=PROBES_MAX),
            ("-p", Some(self.pipeline), 1..=PIPELINE_MAX),
            ("-t", Some(self.threads), 1..=THREADS_MAX),
            ("--processes", Some(self.processes), 1..=PROCESSES_MAX),
            ("the number of addresses of --source", Some(self.sources.len()), 0..=SOURCES_MAX),
        ];
        for (flag, number, range) in rows {
            number.map_or(Ok(()), |number| within(flag, number, range))?;
        }
        let rows = [("-n", self.requests), ("--requests-per-connection", self.requests_per_connection)];
        for (flag, number) in rows {
            number.map_or(Ok(()), |number| within(flag, number, 1..=REQUESTS_MAX))?;
        }
        Ok(())
    }

    fn check_durations(&self) -> Result<(), Failure> {
        let rows = [
            ("-z", self.duration, MOMENT..=LONGEST),
            ("the length of --rate", self.rate.as_ref().and_then(Rate::duration), MOMENT..=LONGEST),
            ("--warmup", self.warmup, Duration::ZERO..=LONGEST),
            ("--timeout", Some(self.timeout), MOMENT..=LONGEST),
            ("--slice", self.slice, Duration::from_millis(SLICE_MS_MIN)..=LONGEST),
            ("--spin", Some(self.spin), Duration::ZERO..=Duration::from_micros(SPIN_US_MAX)),
        ];
        for (flag, duration, range) in rows {
            let (least, most) = (Time(*range.start()), Time(*range.end()));
            duration.map_or(Ok(()), |duration| within(flag, Time(duration), least..=most))?;
        }
        Ok(())
    }

    fn check_rates(&self) -> Result<(), Failure> {
        self.connect_rate.map_or(Ok(()), |rate_per_s| above_zero("--connect-rate", rate_per_s))?;
        let Some(rate) = &self.rate else { return Ok(()) };
        if self.active.is_some() {
            let message = "a rate uses whichever connections are free: leave out --active";
            return Err(Failure::request("bad_flag", message));
        }
        within("the number of stages of --rate", rate.0.len(), 1..=STAGES_MAX)?;
        for stage in &rate.0 {
            within("--rate", stage.from_per_s, 0.0..=RATE_MAX)?;
            within("--rate", stage.to_per_s, 0.0..=RATE_MAX)?;
            let length = stage.duration_ms.map_or(LONGEST, Duration::from_millis);
            within("the length of a stage of --rate", Time(length), Time(MOMENT)..=Time(LONGEST))?;
        }
        Ok(())
    }
}

/// A duration that is shown as the flags take it.
#[derive(PartialEq, PartialOrd)]
struct Time(Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&duration_text(self.0))
    }
}
