//! The report of a run: its settings, its measurements, and what follows from them.

use contract::{
    Bytes, Interval, IntervalWord, LoadSpec, LoadWord, Opening, Pace, Report, ReportWord, Schedule,
    Verification, Version, Workload,
};

use crate::result::validity::Evidence;

/// The report of a run. [`asked`] and [`measured`] are its inverse.
pub(crate) fn report(spec: &LoadSpec, lacks: Vec<String>, measured: &::load::Report) -> Report {
    let window_s = measured.end_ns.saturating_sub(measured.begin_ns) as f64 / 1e9;
    let schedule = schedule(spec, measured, window_s);
    let gone = is_gone(spec, measured);
    let evidence = evidence(spec, measured, gone, schedule.as_ref());
    let (bound, unsound) = (evidence.bound(), evidence.invalid_because());
    let mut report = Report {
        schema: Version,
        event: ReportWord::Is,
        role: LoadWord::Is,
        build: crate::BUILD.to_owned(),
        driver: spec.driver,
        lacks,
        workload: spec.workload.clone(),
        connect: spec.connect.clone(),
        tls: spec.tls.clone(),
        connections: spec.connections,
        idle: spec.idle,
        open: spec.open,
        connections_open: if gone { 0 } else { measured.connections_open },
        connections_made: measured.connections_made,
        threads: spec.threads(),
        processes: spec.processes,
        cpus: spec.cpus.clone(),
        pace: spec.pace.clone(),
        active: spec.active,
        pipeline: spec.pipeline,
        requests_per_connection: spec.requests_per_connection,
        requests_asked: spec.requests,
        spin_us: spec.spin_us,
        verify: spec.verify,
        labels: labels(spec),
        interrupted: measured.interrupted,
        begin_ns: measured.begin_ns,
        end_ns: measured.end_ns,
        requests: measured.requests,
        errors: measured.errors,
        errors_by_phase: measured.errors_by_phase,
        first_error: measured.first_error.clone(),
        first_failure: measured.first_failure,
        bytes: Bytes {
            sent: measured.bytes_sent,
            received: measured.bytes_received,
            bodies: matches!(spec.workload, Workload::Http(_)).then_some(measured.body_bytes),
        },
        rate_per_s: 0.0,
        gone,
        last_reply_ns: (measured.last_reply_ns > 0).then_some(measured.last_reply_ns),
        elapsed_ns: until_last_reply_ns(measured.first_connect_ns, measured),
        finish_ns: until_last_reply_ns(measured.first_begin_ns, measured).filter(|_| spec.requests.is_some()),
        latency_ns: measured.latency.clone(),
        views: measured.views.clone(),
        times: measured.times.as_deref().cloned(),
        schedule,
        probe: measured.probe.as_deref().cloned(),
        unanswered_ns_max: measured.unanswered_ns_max,
        age_begin_ns: measured.age_begin_ns,
        age_end_ns: measured.age_end_ns,
        age_failed_ns: measured.age_failed_ns,
        statuses: measured.statuses.clone(),
        intervals: measured.intervals.clone(),
        generator: measured.generator,
        bound,
        unsound,
    };
    report.rate_per_s = report.per_second(measured.requests.correct);
    report
}

/// The input of the validity rules.
fn evidence<'a>(
    spec: &LoadSpec,
    measured: &'a ::load::Report,
    gone: bool,
    schedule: Option<&'a Schedule>,
) -> Evidence<'a> {
    Evidence {
        measured,
        connections: spec.connections,
        idle: spec.idle,
        requests_per_connection: spec.requests_per_connection,
        ends_at_last_reply: spec.requests.is_some() && spec.open == Opening::AsNeeded,
        gone,
        schedule,
        spins: spec.spin_us > 0,
    }
}

/// Settings that make these figures unusual.
fn labels(spec: &LoadSpec) -> Vec<String> {
    let labels = [
        (spec.verify == Verification::OneReceive, "checked after one receive, as published"),
        (spec.open == Opening::AsNeeded, "connections opened as needed"),
    ];
    labels.iter().filter(|(applies, _)| *applies).map(|(_, label)| (*label).to_owned()).collect()
}

/// Whether no connection was open at the end and none could be opened, of those that should stay open. Connections with
/// a limited number of requests may all be closed at any moment, and one that is being reopened is not open yet.
fn is_gone(spec: &LoadSpec, measured: &::load::Report) -> bool {
    let stays_open = spec.requests_per_connection.is_none()
        && !matches!(&spec.workload, Workload::Http(http) if !http.keep_alive);
    stays_open && measured.connections_open == measured.connections_untaken && measured.errors.connect > 0
}

/// The settings in a report.
pub(crate) fn asked(report: &Report) -> LoadSpec {
    LoadSpec {
        driver: report.driver,
        tls: report.tls.clone(),
        connections: report.connections,
        idle: report.idle,
        open: report.open,
        pace: report.pace.clone(),
        active: report.active,
        pipeline: report.pipeline,
        requests_per_connection: report.requests_per_connection,
        requests: report.requests_asked,
        probes: report.probe.as_ref().map_or(0, |probe| probe.connections),
        spin_us: report.spin_us,
        verify: report.verify,
        details: report.times.is_some(),
        threads: report.threads,
        processes: report.processes,
        cpus: report.cpus.clone(),
        ..LoadSpec::new(report.workload.clone(), report.connect.clone())
    }
}

/// The measurements in a report.
pub(crate) fn measured(report: &Report) -> ::load::Report {
    ::load::Report {
        connections_open: report.connections_open,
        connections_untaken: 0,
        connections_made: report.connections_made,
        begin_ns: report.begin_ns,
        end_ns: report.end_ns,
        requests: report.requests,
        errors: report.errors,
        errors_by_phase: report.errors_by_phase,
        first_error: report.first_error.clone(),
        first_failure: report.first_failure,
        bytes_sent: report.bytes.sent,
        bytes_received: report.bytes.received,
        body_bytes: report.bytes.bodies.unwrap_or_default(),
        latency: report.latency_ns.clone(),
        views: report.views.clone(),
        times: report.times.clone().map(Box::new),
        backlog: report.schedule.as_ref().map(backlog).unwrap_or_default(),
        unanswered_ns_max: report.unanswered_ns_max,
        age_begin_ns: report.age_begin_ns,
        age_end_ns: report.age_end_ns,
        age_failed_ns: report.age_failed_ns,
        last_reply_ns: report.last_reply_ns.unwrap_or_default(),
        first_connect_ns: before_last_reply_ns(report.elapsed_ns, report),
        first_begin_ns: before_last_reply_ns(report.finish_ns, report),
        statuses: report.statuses.clone(),
        intervals: report.intervals.clone(),
        generator: report.generator,
        probe: report.probe.clone().map(Box::new),
        interrupted: report.interrupted,
    }
}

/// The time from `from_ns` to the last reply, if there was one.
fn until_last_reply_ns(from_ns: u64, measured: &::load::Report) -> Option<u64> {
    (measured.last_reply_ns > 0).then(|| measured.last_reply_ns.saturating_sub(from_ns))
}

/// The inverse of [`until_last_reply_ns`].
fn before_last_reply_ns(time_ns: Option<u64>, report: &Report) -> u64 {
    time_ns.zip(report.last_reply_ns).map_or(u64::MAX, |(time_ns, last_ns)| last_ns.saturating_sub(time_ns))
}

fn schedule(spec: &LoadSpec, measured: &::load::Report, window_s: f64) -> Option<Schedule> {
    let Pace::Open { stages, .. } = &spec.pace else { return None };
    let ::load::Backlog { unsent_begin, unsent_end, waited } = measured.backlog;
    let asked = ::load::pace::expected(stages, window_s);
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

/// A slice of the window.
pub(crate) fn interval(slice: &::load::Slice) -> Interval {
    let ::load::Slice { index, begin_ns, end_ns, correct, wrong, failed, ref latency } = *slice;
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
        latency_ns: latency.clone(),
    }
}

/// The inverse of [`interval`].
pub(crate) fn slice(interval: Interval) -> ::load::Slice {
    let Interval { index, begin_ns, end_ns, correct, wrong, failed, latency_ns, .. } = interval;
    ::load::Slice { index, begin_ns, end_ns, correct, wrong, failed, latency: latency_ns }
}

#[cfg(test)]
mod tests;
