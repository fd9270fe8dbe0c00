//! `.svg`: the distribution of the response times and their percentiles, in one static drawing for light and dark.

mod axis;

use std::fmt::Write;

use contract::Report;
use hdrhistogram::Histogram;

use self::axis::{Axis, label_ns, round};
use super::{Ended, Form};
use crate::result::summary::{percentile, rate};
use crate::units::{count, counted, duration_ns};

pub(super) struct Svg;

impl Form for Svg {
    fn end(&mut self, ended: &Ended<'_>) -> String {
        let Ended { report, measured, subject } = ended;
        let name = if measured.views.is_some() { "response time" } else { "service time" };
        let mut curves = vec![Curve { name, class: "response", times: &measured.latency }];
        if let Some(views) = &measured.views {
            curves.push(Curve { name: "service time", class: "service", times: &views.service_ns });
            curves.push(Curve { name: "closed loop would see", class: "closed", times: &views.closed_ns });
            curves.push(Curve {
                name: "lateness of the generator",
                class: "late",
                times: &views.lateness_ns,
            });
        }
        curves.retain(|curve| !curve.times.is_empty());
        drawing(&title(report, subject), &subtitle(report, &measured.latency), &curves)
    }
}

/// A distribution of times as a line.
struct Curve<'a> {
    name: &'static str,
    class: &'static str,
    times: &'a Histogram<u64>,
}

impl Curve<'_> {
    /// The time that one reply in `one_in` exceeds.
    fn at(&self, one_in: f64) -> f64 {
        self.times.value_at_quantile(1.0 - 1.0 / one_in) as f64
    }

    /// Beyond this `one_in` there are no replies left.
    fn one_in_max(&self) -> f64 {
        (self.times.len() as f64).min(ONE_IN_MAX)
    }
}

fn title(report: &Report, subject: &str) -> String {
    format!("{subject}   {}", rate(report))
}

fn subtitle(report: &Report, times: &Histogram<u64>) -> String {
    let time = |ns: u64| duration_ns(ns as f64);
    let not_correct = count(report.requests.wrong + report.requests.failed);
    format!(
        "{} for {}, {} correct, {not_correct} wrong or failed; p50 {}, p99 {}, p99.9 {}, max {}",
        counted(report.connections, "connection"),
        time(report.end_ns.saturating_sub(report.begin_ns)),
        count(report.requests.correct),
        percentile(times, 2),
        percentile(times, 100),
        percentile(times, 1_000),
        time(times.max()),
    )
}

fn drawing(title: &str, subtitle: &str, curves: &[Curve<'_>]) -> String {
    let mut body = String::new();
    text(&mut body, "title", 24.0, 34.0, title);
    text(&mut body, "sub", 24.0, 56.0, subtitle);
    match curves.split_first() {
        None => {
            text(&mut body, "label", 24.0, 90.0, "No reply came in the window: there is nothing to draw.");
        }
        Some((response, _)) => {
            legend(&mut body, curves);
            spread(&mut body, response);
            percentiles(&mut body, curves);
        }
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" role=\"img\">\n<style>{STYLE}</style>\n\
         <rect class=\"ground\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n{body}</svg>\n"
    )
}

/// The names of the lines, or what the times of a single line include.
fn legend(out: &mut String, curves: &[Curve<'_>]) {
    if curves.len() == 1 {
        return text(
            out,
            "sub",
            24.0,
            76.0,
            "A closed loop: times count from the send, and stalls hardly show.",
        );
    }
    let mut x = LEFT;
    for Curve { name, class, .. } in curves {
        line(out, &format!("line {class}"), (x, 80.0), (x + 26.0, 80.0));
        text(out, "label", x + 32.0, 84.0, name);
        // The width of a letter at this size, and a gap.
        x += 60.0 + 6.6 * name.len() as f64;
    }
}

/// The histogram of the replies.
fn spread(out: &mut String, response: &Curve<'_>) {
    let (top, bottom) = (134.0, 374.0);
    let times = response.times;
    let x_axis = Axis::of_times(times.min().max(1) as f64, times.max() as f64, LEFT, RIGHT);
    let shares = shares(times, &x_axis);
    let most = shares.iter().copied().fold(0.0, f64::max);
    // At most five round steps to the top. The highest bar has more than one percent.
    let step = (0..).map(|step| round(step) / 10.0).find(|step| most <= 5.0 * step).unwrap_or(most);
    let steps = (most / step).ceil();
    let y_of = |percent: f64| bottom - (bottom - top) * percent / (steps * step);
    let (initial, rest) = response.name.split_at(1);
    let heading = format!("{}{rest}s: share of the replies, in percent", initial.to_uppercase());
    text(out, "heading", LEFT, top - 14.0, &heading);
    for percent in (0..=steps as u32).map(|count| f64::from(count) * step) {
        let y = y_of(percent);
        line(out, "grid", (LEFT, y), (RIGHT, y));
        text(out, "tick end", LEFT - 8.0, y + 4.0, &format!("{percent} %"));
    }
    time_ticks(out, &x_axis, bottom + 18.0);
    let width = (RIGHT - LEFT) / BINS as f64;
    let mut path = format!("M{LEFT:.1} {bottom:.1}");
    for (index, share) in shares.iter().enumerate() {
        let y = y_of(*share);
        let x = LEFT + width * index as f64;
        let _ = write!(path, "L{x:.1} {y:.1}L{:.1} {y:.1}", x + width);
    }
    let _ = writeln!(out, "<path class=\"area response\" d=\"{path}L{RIGHT:.1} {bottom:.1}Z\"/>");
}

/// The percentage of all times in each of the equal parts of an axis.
fn shares(times: &Histogram<u64>, axis: &Axis) -> Vec<f64> {
    let mut shares = vec![0.0; BINS];
    let parts = Axis { begin: 0.0, end: BINS as f64, ..*axis };
    for value in times.iter_recorded() {
        let part = parts.at(value.value_iterated_to() as f64) as usize;
        shares[part.min(BINS - 1)] += 100.0 * value.count_at_value() as f64 / times.len() as f64;
    }
    shares
}

/// The times of the slowest replies, by their share.
fn percentiles(out: &mut String, curves: &[Curve<'_>]) {
    let (top, bottom) = (474.0, 774.0);
    // The axis begins at the median: the other chart shows the faster half.
    let low_ns = curves.iter().map(|curve| curve.at(2.0)).fold(curves[0].at(1.0), f64::min).max(1.0);
    let high_ns = curves.iter().map(|curve| curve.at(curve.one_in_max())).fold(low_ns, f64::max);
    let y_axis = Axis::of_times(low_ns, high_ns, bottom, top);
    let x_axis = Axis { low: 1.0, high: ONE_IN_MAX, begin: LEFT, end: RIGHT };
    text(out, "heading", LEFT, top - 14.0, "Percentiles of the replies");
    for tick in y_axis.ticks() {
        let y = y_axis.at(tick);
        line(out, "grid", (LEFT, y), (RIGHT, y));
        text(out, "tick end", LEFT - 8.0, y + 4.0, &label_ns(tick));
    }
    for (name, one_in) in PERCENTILES {
        let x = x_axis.at(*one_in);
        line(out, "grid", (x, top), (x, bottom));
        text(out, "tick middle", x, bottom + 18.0, name);
    }
    for curve in curves.iter().rev() {
        let last = x_axis.at(curve.one_in_max());
        let mut points = String::new();
        for point in 0..=POINTS {
            let one_in = x_axis.value(f64::from(point) / f64::from(POINTS)).min(curve.one_in_max());
            let (x, y) = (x_axis.at(one_in), y_axis.at(curve.at(one_in).max(1.0)));
            let _ = write!(points, "{x:.1},{y:.1} ");
            if x >= last {
                break;
            }
        }
        let _ = writeln!(out, "<polyline class=\"line {}\" points=\"{}\"/>", curve.class, points.trim_end());
    }
}

fn time_ticks(out: &mut String, x_axis: &Axis, y: f64) {
    for tick in x_axis.ticks() {
        let x = x_axis.at(tick);
        line(out, "grid", (x, y - 18.0), (x, y - 12.0));
        text(out, "tick middle", x, y, &label_ns(tick));
    }
}

fn line(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(
        out,
        "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
    );
}

fn text(out: &mut String, class: &str, x: f64, y: f64, words: &str) {
    let _ = writeln!(out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(words));
}

/// Escapes a text for XML, which allows no control characters.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

const WIDTH: u32 = 860;
const HEIGHT: u32 = 816;

/// The horizontal extent of the charts.
const LEFT: f64 = 84.0;
const RIGHT: f64 = 824.0;

/// Bars of the first chart.
const BINS: usize = 74;

/// Points of a line of the second.
const POINTS: u32 = 250;

/// Percentiles by the share of slower replies: one in this many.
const PERCENTILES: &[(&str, f64)] = &[
    ("min", 1.0),
    ("p50", 2.0),
    ("p90", 10.0),
    ("p99", 100.0),
    ("p99.9", 1_000.0),
    ("p99.99", 10_000.0),
    ("p99.999", ONE_IN_MAX),
];
const ONE_IN_MAX: f64 = 100_000.0;

/// Colours by role, with a dark variant. Lines also differ by their strokes.
const STYLE: &str = "
:root{color-scheme:light dark;--ground:#ffffff;--ink:#1b2430;--muted:#5b6675;--grid:#e3e7ec;\
--response:#2463c4;--service:#0e7561;--closed:#b54f08;--late:#8d3fb5}
@media (prefers-color-scheme:dark){:root{--ground:#12161c;--ink:#e7ebf0;--muted:#9aa7b6;--grid:#2b333e;\
--response:#7fb0ff;--service:#4fd0b2;--closed:#ff9d57;--late:#d49af2}}
text{font-family:system-ui,sans-serif;font-size:12px;fill:var(--ink)}
.title{font-size:17px;font-weight:600;white-space:pre}.heading{font-size:14px;font-weight:600}
.sub,.tick{fill:var(--muted)}.end{text-anchor:end}.middle{text-anchor:middle}
.ground{fill:var(--ground)}.grid{stroke:var(--grid)}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}.line.response{stroke-width:3}
.area{fill-opacity:.3;stroke-width:1}
.response{stroke:var(--response)}.area.response{fill:var(--response)}.service{stroke:var(--service)}
.closed{stroke:var(--closed);stroke-dasharray:7 4}.late{stroke:var(--late);stroke-dasharray:2 4}
";
