//! What was measured, as the contract tells it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

use crate::contract::{
    BUILD, Bytes, Errors, Generator, Interval, IntervalWord, Intervals, Latency, LoadSpec, LoadWord, Pace,
    Report, ReportWord, Requests, Schedule, Version, Views, Workload,
};
use crate::judgement::Evidence;

/// The report of a run.
pub(crate) fn report(spec: &LoadSpec, lacks: Vec<String>, measured: &::load::Report) -> Report {
    let window_s = measured.end_ns.saturating_sub(measured.begin_ns) as f64 / 1e9;
    let schedule = schedule(spec, measured, window_s);
    let evidence = Evidence { measured, schedule: schedule.as_ref(), spins: spec.spin_us > 0 };
    let (bound, unsound) = (evidence.bound(), evidence.unsound());
    Report {
        schema: Version,
        event: ReportWord::Is,
        role: LoadWord::Is,
        build: BUILD.to_owned(),
        driver: spec.driver,
        lacks,
        workload: spec.workload.clone(),
        connect: spec.connect.clone(),
        connections: spec.connections,
        idle: spec.idle,
        connections_open: measured.connections_open,
        threads: spec.threads(),
        cpus: spec.cpus.clone(),
        pace: spec.pace.clone(),
        active: spec.active,
        pipeline: spec.pipeline,
        requests_per_connection: spec.requests_per_connection,
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
        rate_per_s: if window_s > 0.0 { measured.requests.correct as f64 / window_s } else { 0.0 },
        latency_ns: latency(&measured.latency),
        views: measured.views.as_ref().map(views),
        schedule,
        statuses: measured.statuses.iter().map(|(status, times)| (status.to_string(), times)).collect(),
        intervals: intervals(&measured.intervals),
        generator: generator(&measured.generator),
        bound,
        unsound,
    }
}

fn schedule(spec: &LoadSpec, measured: &::load::Report, window_s: f64) -> Option<Schedule> {
    let Pace::Open { .. } = &spec.pace else { return None };
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

fn errors(errors: &::load::Errors) -> Errors {
    Errors {
        connect: errors.connect,
        reset: errors.reset,
        closed: errors.closed,
        timeout: errors.timeout,
        malformed: errors.malformed,
        status: errors.status,
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

fn intervals(intervals: &::load::Intervals) -> Intervals {
    Intervals {
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

#[cfg(test)]
mod tests;
