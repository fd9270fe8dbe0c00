//! `iolab-engine merge`: merges the reports of generators that ran at the same time into one.
//!
//! Counts and histograms are summed, so percentiles are those of all replies together. Every rate and every conclusion
//! is recomputed from the sums. Nothing is averaged.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use contract::{LoadSpec, Pace, Report, Role, Stage};

use crate::failure::Failure;
use crate::flags::MergeFlags;
use crate::output;
use crate::process::supervision::{self, Owner};
use crate::result::report::{asked, measured, report};
use crate::result::summary;
use crate::spec::limits::REPORTS_BYTES_MAX;

/// Runs the command.
pub(crate) fn command(flags: &MergeFlags) -> ExitCode {
    supervision::finish(merge_files(flags), Owner::Person, Role::Load)
}

fn merge_files(flags: &MergeFlags) -> Result<(), Failure> {
    let mut parts = Vec::new();
    for path in &flags.files {
        let text = read(path).map_err(|error| refusal(format!("cannot read {}: {error}", path.display())))?;
        parts.extend(reports(&text).map_err(|message| refusal(format!("{}: {message}", path.display())))?);
    }
    let (report, measured) = merge(&parts)?;
    output::line(&if flags.json {
        contract::line(&report)
    } else {
        let subject = report.connect.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        summary::text(&report, &summary::rows(&measured), &subject)
    });
    Ok(())
}

/// The reports in the text of a file.
fn reports(text: &str) -> Result<Vec<Report>, String> {
    if !text.trim_start().starts_with('{') {
        return Err("there is no report in it: merge reads what -o writes to .json and .ndjson".into());
    }
    let reports = contract::reports(text)?;
    if reports.is_empty() {
        return Err("there is no report in it: that is the last line of a run that has ended".into());
    }
    Ok(reports)
}

/// The contents of a file or of standard input.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let mut input: Box<dyn Read> =
        if path == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
    let length = input.by_ref().take(REPORTS_BYTES_MAX).read_to_string(&mut text)?;
    if length as u64 == REPORTS_BYTES_MAX {
        return Err(io::Error::other(format!("it is longer than {REPORTS_BYTES_MAX} bytes")));
    }
    Ok(text)
}

/// The merged report of all `parts`, and their merged measurements.
///
/// # Errors
/// `cannot_merge`: the parts do not belong to one load at one time.
fn merge(parts: &[Report]) -> Result<(Report, ::load::Report), Failure> {
    let (first, others) = parts.split_first().expect("every file that was read has a report");
    for (index, other) in others.iter().enumerate() {
        if let Some(difference) = difference(first, other) {
            let place = index + 2;
            return Err(refusal(format!("report {place} cannot be merged with the first: {difference}")));
        }
    }
    check_distinct(parts)?;
    check_windows(parts)?;
    let mut whole = asked(first);
    others.iter().for_each(|other| add(&mut whole, &asked(other)));
    let mut sum = ::load::Report::empty(matches!(first.pace, Pace::Open { .. }));
    parts.iter().for_each(|part| sum.add(&measured(part)));
    let mut lacks = Vec::new();
    parts.iter().for_each(|part| unite(&mut lacks, &part.lacks));
    // The engine that merges may be another build than those that measured.
    let report = Report { build: first.build.clone(), ..report(&whole, lacks, &sum) };
    Ok((report, sum))
}

/// The first difference that two parts of one load cannot have.
fn difference(one: &Report, other: &Report) -> Option<String> {
    let fields = [
        ("builds", one.build == other.build),
        ("protocols", one.workload.protocol() == other.workload.protocol()),
        ("workloads", one.workload == other.workload),
        ("settings of TLS", one.tls == other.tls),
        ("paces", is_same_kind(&one.pace, &other.pace)),
        ("drivers", one.driver == other.driver),
        ("ways of opening connections", one.open == other.open),
        ("details", one.times.is_some() == other.times.is_some()),
        ("ways of checking", one.verify == other.verify),
        ("depths of pipeline", one.pipeline == other.pipeline),
        ("requests per connection", one.requests_per_connection == other.requests_per_connection),
        ("ways of ending", one.requests_asked.is_some() == other.requests_asked.is_some()),
        ("lengths of intervals", one.intervals.length_ns == other.intervals.length_ns),
    ];
    let differing = fields.iter().find(|(_, is_same)| !is_same);
    differing.map(|(name, _)| format!("they have different {name}"))
}

/// Refuses a report that is given twice, which would count every reply twice.
fn check_distinct(parts: &[Report]) -> Result<(), Failure> {
    for (index, part) in parts.iter().enumerate() {
        if let Some(twin) = parts[..index].iter().position(|earlier| earlier == part) {
            let (place, first) = (index + 1, twin + 1);
            return Err(refusal(format!(
                "report {place} cannot be merged with report {first}: they are the same report"
            )));
        }
    }
    Ok(())
}

/// Whether rates can be added: they belong to the same kind of loop and change at the same times.
fn is_same_kind(one: &Pace, other: &Pace) -> bool {
    match (one, other) {
        (Pace::Closed, Pace::Closed) => true,
        (
            Pace::Open { arrivals, stages, .. },
            Pace::Open { arrivals: other_arrivals, stages: other_stages, .. },
        ) => {
            let durations =
                |stages: &[Stage]| stages.iter().map(|stage| stage.duration_ms).collect::<Vec<_>>();
            arrivals == other_arrivals && durations(stages) == durations(other_stages)
        }
        _ => false,
    }
}

/// Refuses parts that were not measured at the same time on one machine's clock: no server ever had their summed load.
fn check_windows(parts: &[Report]) -> Result<(), Failure> {
    let begin_ns = parts.iter().map(|part| part.begin_ns).max().unwrap_or_default();
    let end_ns = parts.iter().map(|part| part.end_ns).min().unwrap_or_default();
    let longest_ns =
        parts.iter().map(|part| part.end_ns.saturating_sub(part.begin_ns)).max().unwrap_or_default();
    if end_ns.saturating_sub(begin_ns) < longest_ns / 2 {
        return Err(refusal("the reports are not of the same time: their windows overlap by less than half"));
    }
    Ok(())
}

/// Adds the settings of another part.
fn add(whole: &mut LoadSpec, part: &LoadSpec) {
    // A part without a number of busy connections uses all of its connections.
    if whole.active.is_some() || part.active.is_some() {
        let busy = |spec: &LoadSpec| spec.active.unwrap_or(spec.connections);
        whole.active = Some(busy(whole) + busy(part));
    }
    whole.requests = whole.requests.zip(part.requests).map(|(whole, part)| whole.saturating_add(part));
    whole.connections += part.connections;
    whole.idle += part.idle;
    whole.probes += part.probes;
    whole.threads += part.threads;
    whole.processes += part.processes;
    whole.spin_us = whole.spin_us.max(part.spin_us);
    unite(&mut whole.connect, &part.connect);
    if whole.cpus.is_empty() || part.cpus.is_empty() {
        // One of them may run on all processors.
        whole.cpus.clear();
    } else {
        unite(&mut whole.cpus, &part.cpus);
    }
    if let (Pace::Open { stages, .. }, Pace::Open { stages: more, .. }) = (&mut whole.pace, &part.pace) {
        for (stage, more) in stages.iter_mut().zip(more) {
            stage.from_per_s += more.from_per_s;
            stage.to_per_s += more.to_per_s;
        }
    }
}

/// Appends the items that are not in it yet.
fn unite<T: Clone + PartialEq>(whole: &mut Vec<T>, part: &[T]) {
    for item in part {
        if !whole.contains(item) {
            whole.push(item.clone());
        }
    }
}

fn refusal(message: impl Into<String>) -> Failure {
    Failure::request("cannot_merge", message)
}
