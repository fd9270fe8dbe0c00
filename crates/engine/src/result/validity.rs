//! What limited a run, and whether its figures are valid: rules about the generator, never about the result.

use contract::{Bound, BoundBy, Schedule};
use hdrhistogram::Histogram;

use crate::units::{count, duration_ns};

/// Above this busy share, the generator probably limits the rate.
const BUSY_SHARE_MAX: f64 = 0.9;
/// Above this share of the time, waiting for a processor shows in every percentile.
const DELAY_SHARE_MAX: f64 = 0.05;
/// Above this share, waiting for a processor reduces the rate so much that the generator is the limit, however long it
/// waited for replies.
const DELAY_SHARE_LIMIT: f64 = 0.15;
/// In a shorter window one time slice of the scheduler is a large share, and shares mean nothing.
const WINDOW_NS_MIN: u64 = 100_000_000;
/// A longer pause is not work: the scheduler or the machine took the processor away.
const AWAY_NS_MAX: u64 = 20_000_000;
/// Sending later than this distorts latency, unless latency is ten times as long.
const LATENESS_P99_NS_MAX: u64 = 1_000_000;
const LATENESS_SHARE_MAX: f64 = 0.1;
/// Below this share of the due requests, the rate is not the requested one.
const ACHIEVED_SHARE_MIN: f64 = 0.99;
/// A higher share of failures is an outage, not a speed.
const FAILED_SHARE_MAX: f64 = 0.001;

/// A request without a reply is overdue after this many times the longest latency,
const UNANSWERED_FACTOR: u64 = 2;
/// if it has waited for this long, or if more than this share of all sent requests are unanswered.
const UNANSWERED_NS_MAX: u64 = 1_000_000_000;
const UNANSWERED_SHARE_MAX: f64 = 0.01;

/// The input of the validity rules.
pub(crate) struct Evidence<'a> {
    pub(crate) measured: &'a ::load::Report,
    pub(crate) connections: usize,
    pub(crate) idle: usize,
    pub(crate) requests_per_connection: Option<u64>,
    /// Whether the run ends after a number of replies, even while other requests wait.
    pub(crate) ends_at_last_reply: bool,
    /// Whether the server was gone at the end.
    pub(crate) gone: bool,
    /// None in a closed loop.
    pub(crate) schedule: Option<&'a Schedule>,
    /// Whether it busy-waits: then its busy share means nothing.
    pub(crate) spins: bool,
}

impl Evidence<'_> {
    /// What limited the rate.
    pub(crate) fn bound(&self) -> Bound {
        let (by, why) = if self.gone {
            (BoundBy::Server, self.when_gone())
        } else if self.replies() == 0 {
            (BoundBy::Unclear, "no reply came".into())
        } else if self.is_mostly_wrong() {
            (BoundBy::Unclear, "most replies were wrong".into())
        } else if self.is_short() {
            (BoundBy::Unclear, "the run was too short to say".into())
        } else if let Some(why) = self.generator_limit() {
            (BoundBy::Generator, why)
        } else if let Some(schedule) = self.schedule {
            self.open_bound(schedule)
        } else if self.spins {
            (BoundBy::Unclear, "the generator spins, so its CPU share is not known".into())
        } else {
            let waited = 100.0 * self.waiting_share();
            (BoundBy::Server, format!("the generator waited for replies {waited:.0} % of the time"))
        };
        Bound { by, why }
    }

    /// Why the figures cannot be trusted: the field `unsound` of a report.
    pub(crate) fn invalid_because(&self) -> Vec<String> {
        let mut reasons = Vec::from_iter(self.unbalanced());
        if self.gone {
            reasons.push(none_open(&self.when_gone(), self.connections + self.idle));
        }
        reasons.extend(self.generator_limit());
        // A lack of processor time may explain slow replies even if it did not limit the rate.
        if let Some(reason) = self.starved()
            && !reasons.contains(&reason)
        {
            reasons.push(reason);
        }
        let requests = &self.measured.requests;
        let away_ns = self.measured.generator.turn_ns_max;
        if away_ns > AWAY_NS_MAX {
            let away = duration_ns(away_ns as f64);
            reasons.push(format!(
                "the generator once paused for {away}: this may have caused the slowest replies"
            ));
        }
        let ended = self.replies() + requests.failed;
        if requests.correct == 0 {
            reasons.push("no reply was correct: these numbers do not show how fast the server is".into());
        } else if requests.wrong > 0 || requests.failed as f64 > FAILED_SHARE_MAX * ended as f64 {
            reasons.push("some replies were wrong: the rate counts only correct ones".into());
        }
        if let Some(reason) = self.unread().or_else(|| self.unanswered()) {
            reasons.push(reason);
        }
        // If the server is gone, unsent requests are no news.
        if !self.gone
            && self.is_behind()
            && let Some(schedule) = self.schedule
        {
            let asked = count(schedule.due);
            let unsent = count(schedule.unsent_end.saturating_sub(schedule.unsent_begin));
            reasons
                .push(format!("{unsent} of {asked} due requests were left unsent at the end of the window"));
        }
        reasons
    }

    /// That the counts contradict each other. Every sent request has ended or is in flight, every error has a kind and
    /// a phase, and no connection is open that was never opened or has carried too many requests.
    fn unbalanced(&self) -> Option<String> {
        let ::load::Report { requests, errors, errors_by_phase, connections_open, connections_made, .. } =
            self.measured;
        let begun = requests.sent + requests.in_flight_begin;
        let ended = requests.correct + requests.wrong + requests.failed;
        let went_wrong = requests.wrong + requests.failed;
        let most =
            self.requests_per_connection.map_or(u64::MAX, |each| each.saturating_mul(*connections_made));
        let balances = [
            ("requests", begun == ended + requests.in_flight_end),
            ("errors by kind", errors.sum() == went_wrong),
            ("errors by phase", errors_by_phase.sum() == went_wrong),
            ("connections", *connections_open as u64 <= *connections_made),
            ("requests on each connection", ended.saturating_sub(errors_by_phase.connect) <= most),
        ];
        let wrong = balances.iter().find(|(_, is_right)| !is_right);
        wrong.map(|(name, _)| format!("the counts of {name} do not add up: this is a bug of the generator"))
    }

    /// That the server was gone, and after which part of the window.
    fn when_gone(&self) -> String {
        let last_ns = self.measured.last_reply_ns.saturating_sub(self.measured.begin_ns);
        if last_ns == 0 {
            return "the server was gone before its first reply in the window".into();
        }
        let window = duration_ns(1e9 * self.window_s());
        format!("the server was gone after {} of {window}", duration_ns(last_ns as f64))
    }

    fn open_bound(&self, schedule: &Schedule) -> (BoundBy, String) {
        if self.is_behind() {
            let rate = self.measured.requests.sent as f64 / self.window_s();
            let (rate, asked) = (count(rate.round() as u64), count(schedule.asked_per_s.round() as u64));
            let why = format!(
                "requests waited for a free connection: {rate}/s went out of the {asked}/s that were due"
            );
            return (BoundBy::Server, why);
        }
        (BoundBy::Rate, self.how_punctual())
    }

    /// That all requests were sent, and how late if that is part of the slowest latencies.
    fn how_punctual(&self) -> String {
        let lateness_ns = self.measured.views.as_ref().map_or(0, |views| quantile(&views.lateness_ns, 0.99));
        if lateness_ns as f64 <= LATENESS_SHARE_MAX * quantile(&self.measured.latency, 0.99) as f64 {
            return "every request was sent on time".into();
        }
        let late = duration_ns(lateness_ns as f64);
        let advice = if self.spins { "" } else { " (--spin)" };
        format!(
            "every due request was sent, one in a hundred {late} late or more: this may explain slow replies{advice}"
        )
    }

    /// How the generator limited the run, if it did.
    fn generator_limit(&self) -> Option<String> {
        // A server that answers mostly wrong may be slower than this when it answers right.
        if self.is_mostly_wrong() {
            return None;
        }
        // A generator that mostly waited for replies, and little for a processor, was not the limit: with its own
        // processor it would have waited for the same replies.
        let mostly_waited = self.starved_share() < DELAY_SHARE_LIMIT
            && self.busy_share() + self.starved_share() < self.waiting_share();
        self.starved().filter(|_| !mostly_waited).or_else(|| self.late()).or_else(|| self.restless())
    }

    /// That it was runnable without a processor.
    fn starved(&self) -> Option<String> {
        let starved = self.starved_share();
        (starved >= DELAY_SHARE_MAX && !self.is_short()).then(|| {
            format!(
                "the generator waited {:.0} % of the time for a processor: give it one of its own (--cpus)",
                100.0 * starved
            )
        })
    }

    /// That it sent requests late although connections were free.
    fn late(&self) -> Option<String> {
        self.lateness_p99_ns().map(|lateness_ns| {
            let late = duration_ns(lateness_ns as f64);
            format!(
                "the generator sent one request in a hundred {late} or more after its time: give it more threads (-t), \
                 processors of its own (--cpus), or let it spin (--spin)"
            )
        })
    }

    /// That it was busy all the time.
    fn restless(&self) -> Option<String> {
        // If it kept to the schedule, being busy was no limit.
        let is_free = self.schedule.is_some() && !self.is_behind();
        (!is_free && !self.spins && self.busy_share() >= BUSY_SHARE_MAX).then(|| {
            format!(
                "the generator was busy {:.0} % of the time: the server may be faster than this; try more threads (-t)",
                100.0 * self.busy_share()
            )
        })
    }

    /// The 99th percentile of its lateness, if that is too long.
    fn lateness_p99_ns(&self) -> Option<u64> {
        let views = self.measured.views.as_ref()?;
        let lateness_ns = quantile(&views.lateness_ns, 0.99);
        let tolerated_ns = LATENESS_SHARE_MAX * quantile(&self.measured.latency, 0.5) as f64;
        (lateness_ns > LATENESS_P99_NS_MAX.max(tolerated_ns as u64)).then_some(lateness_ns)
    }

    /// Whether fewer requests were sent than due, beyond the earlier backlog and what chance explains: the number of
    /// connections, or three standard deviations of a Poisson count.
    fn is_behind(&self) -> bool {
        self.schedule.is_some_and(|schedule| {
            let behind = schedule.unsent_end.saturating_sub(schedule.unsent_begin) as f64;
            let due = schedule.due as f64;
            behind > (1.0 - ACHIEVED_SHARE_MIN) * due
                && behind > (3.0 * due.sqrt()).max(self.connections as f64)
        })
    }

    /// That the schedule was kept, but the generator was always busy: replies may have waited to be read.
    fn unread(&self) -> Option<String> {
        let is_busy = self.schedule.is_some() && !self.spins && self.busy_share() >= BUSY_SHARE_MAX;
        (is_busy && self.generator_limit().is_none()).then(|| {
            let busy = 100.0 * self.busy_share();
            format!("the generator was busy {busy:.0} % of the time: replies may have waited to be read")
        })
    }

    /// Requests whose replies were missing at the end and overdue compared with all others. The percentiles do not
    /// include them.
    fn unanswered(&self) -> Option<String> {
        let oldest_ns = self.measured.unanswered_ns_max;
        let in_flight = self.measured.requests.in_flight_end;
        let is_overdue = oldest_ns > UNANSWERED_FACTOR * self.measured.latency.max();
        let are_many = in_flight as f64 > UNANSWERED_SHARE_MAX * self.measured.requests.sent as f64;
        let were_cut_off = self.ends_at_last_reply;
        (in_flight > 0 && !were_cut_off && is_overdue && (are_many || oldest_ns > UNANSWERED_NS_MAX)).then(|| {
            let (number, oldest) = (count(in_flight), duration_ns(oldest_ns as f64));
            format!(
                "{number} requests had no reply at its end, the oldest for {oldest}: the percentiles do not include \
                 them"
            )
        })
    }

    fn busy_share(&self) -> f64 {
        share(self.measured.generator.cpu_ns, self.measured.generator.wall_ns)
    }

    fn starved_share(&self) -> f64 {
        share(self.measured.generator.run_delay_ns, self.measured.generator.wall_ns)
    }

    /// The rest of its time: nothing to do before a reply arrived or a request was due.
    fn waiting_share(&self) -> f64 {
        (1.0 - self.busy_share() - self.starved_share()).max(0.0)
    }

    fn is_short(&self) -> bool {
        self.measured.end_ns.saturating_sub(self.measured.begin_ns) < WINDOW_NS_MIN
    }

    /// Whether fewer than half of the replies were correct.
    fn is_mostly_wrong(&self) -> bool {
        self.measured.requests.correct < self.measured.requests.wrong
    }

    fn replies(&self) -> u64 {
        self.measured.requests.correct + self.measured.requests.wrong
    }

    fn window_s(&self) -> f64 {
        self.measured.end_ns.saturating_sub(self.measured.begin_ns).max(1) as f64 / 1e9
    }
}

/// That no connection was left of a server that is gone; `when` tells since when.
pub(crate) fn none_open(when: &str, connections: usize) -> String {
    format!("{when}: none of {} connections was open or could be opened", count(connections as u64))
}

fn quantile(histogram: &Histogram<u64>, quantile: f64) -> u64 {
    histogram.value_at_quantile(quantile)
}

fn share(part_ns: u64, whole_ns: u64) -> f64 {
    if whole_ns == 0 { 0.0 } else { part_ns as f64 / whole_ns as f64 }
}

#[cfg(test)]
mod tests;
