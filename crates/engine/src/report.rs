//! What was measured, as the contract tells it.

use std::collections::BTreeMap;
use std::error::Error;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use crate::contract::{
    BUILD, Bytes, Errors, Generator, INTERVAL_MS_DEFAULT, Interval, IntervalWord, Intervals, Latency,
    LoadSpec, LoadWord, Probe, Report, ReportWord, Requests, Schedule, TIMEOUT_MS_DEFAULT, Version, Views,
    Workload,
};
use crate::judgement::Evidence;

/// The report of a run. [`asked`] and [`measured`] are its inverse.
pub(crate) fn report(spec: &LoadSpec, lacks: Vec<String>, measured: &::load::Report) -> Report {
    let window_s = measured.end_ns.saturating_sub(measured.begin_ns) as f64 / 1e9;
    let schedule = schedule(spec, measured, window_s);
    let gone = is_gone(spec, measured);
    let evidence = Evidence {
        measured,
        connections: spec.connections,
        idle: spec.idle,
        gone,
        schedule: schedule.as_ref(),
        spins: spec.spin_us > 0,
    };
    let (bound, unsound) = (evidence.bound(), evidence.unsound());
    let mut report = Report {
        schema: Version,
        event: ReportWord::Is,
        role: LoadWord::Is,
        build: BUILD.to_owned(),
        driver: spec.driver,
        lacks,
        workload: spec.workload.clone(),
        connect: spec.connect.clone(),
        tls: spec.tls.clone(),
        connections: spec.connections,
        idle: spec.idle,
        connections_open: if gone { 0 } else { measured.connections_open },
        threads: spec.threads(),
        processes: spec.processes,
        cpus: spec.cpus.clone(),
        pace: spec.pace.clone(),
        active: spec.active,
        pipeline: spec.pipeline,
        requests_per_connection: spec.requests_per_connection,
        spin_us: spec.spin_us,
        interrupted: measured.interrupted,
        begin_ns: measured.begin_ns,
        end_ns: measured.end_ns,
        requests: requests(&measured.requests),
        errors: errors(&measured.errors),
        first_error: measured.first_error.clone(),
        bytes: Bytes {
            sent: measured.bytes_sent,
            received: measured.bytes_received,
            bodies: matches!(spec.workload, Workload::Http(_)).then_some(measured.body_bytes),
        },
        rate_per_s: 0.0,
        gone,
        last_reply_ns: (measured.last_reply_ns > 0).then_some(measured.last_reply_ns),
        latency_ns: latency(&measured.latency),
        views: measured.views.as_ref().map(views),
        schedule,
        probe: measured.probe.as_ref().map(|measured| probe(spec, measured)),
        unanswered_ns_max: measured.unanswered_ns_max,
        age_begin_ns: measured.age_begin_ns,
        age_end_ns: measured.age_end_ns,
        age_failed_ns: measured.age_failed_ns,
        statuses: measured.statuses.iter().map(|(status, times)| (status.to_string(), times)).collect(),
        intervals: intervals(&measured.intervals),
        generator: generator(&measured.generator),
        bound,
        unsound,
    };
    report.rate_per_s = report.per_second(measured.requests.correct);
    report
}

/// Whether no connection was open at the end and none could be opened, of those that were to stay open. One that is
/// opened for each request may be none at any moment; one that was just begun to be opened again is none yet.
fn is_gone(spec: &LoadSpec, measured: &::load::Report) -> bool {
    let stays_open = spec.requests_per_connection.is_none()
        && !matches!(&spec.workload, Workload::Http(http) if !http.keep_alive);
    stays_open && measured.connections_open == measured.connections_untaken && measured.errors.connect > 0
}

/// What was asked for, as far as a report tells it.
pub(crate) fn asked(report: &Report) -> LoadSpec {
    LoadSpec {
        schema: Version,
        role: LoadWord::Is,
        driver: report.driver,
        workload: report.workload.clone(),
        connect: report.connect.clone(),
        tls: report.tls.clone(),
        sources: Vec::new(),
        connections: report.connections,
        idle: report.idle,
        connect_per_s: None,
        pace: report.pace.clone(),
        active: report.active,
        pipeline: report.pipeline,
        requests_per_connection: report.requests_per_connection,
        probes: report.probe.as_ref().map_or(0, |probe| probe.connections),
        spin_us: report.spin_us,
        threads: report.threads,
        processes: report.processes,
        place: None,
        cpus: report.cpus.clone(),
        warmup_ms: None,
        duration_ms: None,
        requests: None,
        timeout_ms: TIMEOUT_MS_DEFAULT,
        interval_ms: INTERVAL_MS_DEFAULT,
        slice_ms: None,
        held: false,
    }
}

/// What was measured.
///
/// # Errors
/// A histogram or a status that is none.
pub(crate) fn measured(report: &Report) -> Result<::load::Report, String> {
    Ok(::load::Report {
        connections_open: report.connections_open,
        connections_untaken: 0,
        begin_ns: report.begin_ns,
        end_ns: report.end_ns,
        requests: requests_of(&report.requests),
        errors: errors_of(&report.errors),
        first_error: report.first_error.clone(),
        bytes_sent: report.bytes.sent,
        bytes_received: report.bytes.received,
        body_bytes: report.bytes.bodies.unwrap_or_default(),
        latency: histogram(&report.latency_ns)?,
        views: report.views.as_ref().map(views_of).transpose()?,
        backlog: report.schedule.as_ref().map(backlog).unwrap_or_default(),
        unanswered_ns_max: report.unanswered_ns_max,
        age_begin_ns: report.age_begin_ns,
        age_end_ns: report.age_end_ns,
        age_failed_ns: report.age_failed_ns,
        last_reply_ns: report.last_reply_ns.unwrap_or_default(),
        statuses: statuses(&report.statuses)?,
        intervals: intervals_of(&report.intervals),
        generator: generator_of(&report.generator),
        probe: report.probe.as_ref().map(probe_of).transpose()?.map(Box::new),
        interrupted: report.interrupted,
    })
}

fn schedule(spec: &LoadSpec, measured: &::load::Report, window_s: f64) -> Option<Schedule> {
    let ::load::Pace::Open { stages, .. } = (&spec.pace).into() else { return None };
    let ::load::Backlog { unsent_begin, unsent_end, waited } = measured.backlog;
    let asked = ::load::pace::expected(&stages, window_s);
    Some(Schedule {
        due: measured.requests.sent + unsent_end - unsent_begin,
        unsent_begin,
        unsent_end,
        waited,
        asked_per_s: if window_s > 0.0 { asked / window_s } else { 0.0 },
    })
}

fn backlog(schedule: &Schedule) -> ::load::Backlog {
    let Schedule { unsent_begin, unsent_end, waited, .. } = *schedule;
    ::load::Backlog { unsent_begin, unsent_end, waited }
}

fn statuses(times: &BTreeMap<String, u64>) -> Result<::load::Statuses, String> {
    let status = |(status, number): (&String, &u64)| match status.parse() {
        Ok(status @ 100..=599) => Ok((status, *number)),
        _ => Err(format!("{status} is no status")),
    };
    Ok(::load::Statuses::of(times.iter().map(status).collect::<Result<Vec<_>, _>>()?))
}

fn probe(spec: &LoadSpec, measured: &::load::Report) -> Probe {
    let views = measured.views.as_ref().expect("probes run an open loop");
    Probe {
        connections: spec.probes,
        requests: requests(&measured.requests),
        latency_ns: latency(&measured.latency),
        service_ns: latency(&views.service),
        lateness_ns: latency(&views.lateness),
    }
}

fn probe_of(probe: &Probe) -> Result<::load::Report, String> {
    let nothing = ::load::Report::empty(true);
    let (service, lateness) = (histogram(&probe.service_ns)?, histogram(&probe.lateness_ns)?);
    Ok(::load::Report {
        requests: requests_of(&probe.requests),
        latency: histogram(&probe.latency_ns)?,
        views: nothing.views.map(|views| ::load::Views { service, lateness, ..views }),
        ..::load::Report::empty(true)
    })
}

fn requests(requests: &::load::Requests) -> Requests {
    Requests {
        sent: requests.sent,
        correct: requests.correct,
        wrong: requests.wrong,
        failed: requests.failed,
        in_flight_begin: requests.in_flight_begin,
        in_flight_end: requests.in_flight_end,
    }
}

fn requests_of(requests: &Requests) -> ::load::Requests {
    ::load::Requests {
        sent: requests.sent,
        correct: requests.correct,
        wrong: requests.wrong,
        failed: requests.failed,
        in_flight_begin: requests.in_flight_begin,
        in_flight_end: requests.in_flight_end,
    }
}

fn errors(errors: &::load::Errors) -> Errors {
    Errors {
        connect: errors.connect,
        reset: errors.reset,
        closed: errors.closed,
        timeout: errors.timeout,
        malformed: errors.malformed,
        tls: errors.tls,
        status: errors.status,
        wrong: errors.wrong,
    }
}

fn errors_of(errors: &Errors) -> ::load::Errors {
    ::load::Errors {
        connect: errors.connect,
        reset: errors.reset,
        closed: errors.closed,
        timeout: errors.timeout,
        malformed: errors.malformed,
        status: errors.status,
        tls: errors.tls,
        wrong: errors.wrong,
    }
}

fn views(views: &::load::Views) -> Views {
    Views {
        service_ns: latency(&views.service),
        closed_ns: latency(&views.closed),
        lateness_ns: latency(&views.lateness),
    }
}

fn views_of(views: &Views) -> Result<::load::Views, String> {
    Ok(::load::Views {
        service: histogram(&views.service_ns)?,
        closed: histogram(&views.closed_ns)?,
        lateness: histogram(&views.lateness_ns)?,
    })
}

fn intervals(intervals: &::load::Intervals) -> Intervals {
    Intervals {
        begin_ns: intervals.begin_ns,
        length_ns: intervals.length_ns,
        completed: intervals.completed.clone(),
    }
}

fn intervals_of(intervals: &Intervals) -> ::load::Intervals {
    ::load::Intervals {
        begin_ns: intervals.begin_ns,
        length_ns: intervals.length_ns,
        completed: intervals.completed.clone(),
    }
}

fn generator(generator: &::load::Generator) -> Generator {
    Generator {
        cpu_ns: generator.cpu_ns,
        wall_ns: generator.wall_ns,
        run_delay_ns: generator.run_delay_ns,
        turn_ns_max: generator.turn_ns_max,
        turns: generator.turns,
        rss_bytes_max: generator.rss_bytes_max,
    }
}

fn generator_of(generator: &Generator) -> ::load::Generator {
    ::load::Generator {
        cpu_ns: generator.cpu_ns,
        wall_ns: generator.wall_ns,
        run_delay_ns: generator.run_delay_ns,
        turn_ns_max: generator.turn_ns_max,
        turns: generator.turns,
        rss_bytes_max: generator.rss_bytes_max,
    }
}

/// A slice of the window.
pub(crate) fn interval(slice: &::load::Slice) -> Interval {
    let ::load::Slice { index, begin_ns, end_ns, correct, wrong, failed, .. } = *slice;
    Interval {
        schema: Version,
        event: IntervalWord::Is,
        role: LoadWord::Is,
        index,
        begin_ns,
        end_ns,
        correct,
        wrong,
        failed,
        rate_per_s: correct as f64 / ((end_ns - begin_ns).max(1) as f64 / 1e9),
        latency_ns: latency(&slice.latency),
    }
}

/// The inverse of [`interval`].
///
/// # Errors
/// A histogram that is none.
pub(crate) fn slice(interval: &Interval) -> Result<::load::Slice, String> {
    let Interval { index, begin_ns, end_ns, correct, wrong, failed, .. } = *interval;
    let latency = histogram(&interval.latency_ns)?;
    Ok(::load::Slice { index, begin_ns, end_ns, correct, wrong, failed, latency })
}

/// A distribution with its histogram, whole.
pub(crate) fn latency(histogram: &Histogram<u64>) -> Latency {
    let mut packed = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut packed)
        .expect("memory can be written, and counts fit the format");
    Latency {
        min: histogram.min(),
        mean: histogram.mean(),
        p50: histogram.value_at_quantile(0.5),
        p90: histogram.value_at_quantile(0.9),
        p99: histogram.value_at_quantile(0.99),
        p99_9: histogram.value_at_quantile(0.999),
        p99_99: histogram.value_at_quantile(0.9999),
        p99_999: histogram.value_at_quantile(0.99999),
        max: histogram.max(),
        stdev: histogram.stdev(),
        histogram: STANDARD.encode(packed),
    }
}

/// The histogram of a distribution, in the shape that all have.
///
/// # Errors
/// Where it is none, or holds what does not fit.
fn histogram(latency: &Latency) -> Result<Histogram<u64>, String> {
    let wrong = |error: &dyn Error| format!("a histogram cannot be read: {error}");
    let packed = STANDARD.decode(&latency.histogram).map_err(|error| wrong(&error))?;
    let unpacked: Histogram<u64> =
        Deserializer::new().deserialize(&mut &packed[..]).map_err(|error| wrong(&error))?;
    let mut histogram = ::load::Report::empty(false).latency;
    histogram.add(&unpacked).map_err(|error| wrong(&error))?;
    Ok(histogram)
}

#[cfg(test)]
mod tests;
