//! The report of a run, and the invariants of every report.

use std::fmt;

use serde_json::Value;

use crate::common::Engine;

/// The relative tolerance between the requests in flight and rate times latency.
const LITTLE_TOLERANCE: f64 = 0.02;

/// The report of a run as JSON.
pub(crate) struct Report(Value);

impl Report {
    /// Runs the generator to its report.
    pub(crate) fn of(spec: &Value) -> Self {
        Self::try_of(spec).unwrap_or_else(|told| panic!("no report came, only {told:?}, for {spec}"))
    }

    /// The same; `Err` has the events of a run without a report.
    pub(crate) fn try_of(spec: &Value) -> Result<Self, Vec<String>> {
        let engine = Engine::start(spec);
        let mut told = Vec::new();
        while let Some(event) = engine.event() {
            told.push(event["event"].as_str().expect("an event has a name").to_owned());
            if event["event"] == "report" {
                assert_eq!(told, ["ready", "measuring", "measured", "report"], "the order of events");
                return Ok(Self(event));
            }
        }
        Err(told)
    }

    /// A report received elsewhere.
    pub(crate) fn from_event(event: Value) -> Self {
        Self(event)
    }

    pub(crate) fn requests(&self, name: &str) -> u64 {
        self.number(&self.0["requests"][name])
    }

    pub(crate) fn errors(&self, kind: &str) -> u64 {
        self.number(&self.0["errors"][kind])
    }

    pub(crate) fn bytes(&self, name: &str) -> u64 {
        self.number(&self.0["bytes"][name])
    }

    /// The invariants of every run, whatever the server does.
    pub(crate) fn assert_physics(&self) {
        let count = |name| self.requests(name);
        assert_eq!(
            count("sent") + count("in_flight_begin"),
            count("correct") + count("wrong") + count("failed") + count("in_flight_end"),
            "requests are conserved: {self}"
        );
        let errors = |kinds: &[&str]| kinds.iter().map(|kind| self.errors(kind)).sum::<u64>();
        assert_eq!(count("wrong"), errors(&["wrong", "status"]), "{self}");
        let kinds = ["connect", "reset", "closed", "timeout", "malformed", "tls"];
        assert_eq!(count("failed"), errors(&kinds), "failures have kinds: {self}");
        let fine = count("wrong") + count("failed") == 0;
        assert_eq!(self.0["first_error"].is_null(), fine, "the first error is told: {self}");
        let phase = |name: &str| self.number(&self.0["errors_by_phase"][name]);
        let phases = ["connect", "send", "receive", "close"];
        assert_eq!(
            phases.map(phase).iter().sum::<u64>(),
            count("wrong") + count("failed"),
            "errors have phases: {self}"
        );
        let first = &self.0["first_failure"];
        assert_eq!(first.is_null(), fine, "the first failure is told: {self}");
        if !fine {
            let seen = first["phase"].as_str().expect("a word");
            assert!(phase(seen) > 0, "the first failure is one of those that are counted: {self}");
            assert!(self.number(&first["connection"]) > 0 && self.number(&first["request"]) > 0, "{self}");
        }
        let open = self.number(&self.0["connections_open"]);
        assert!(self.number(&self.0["connections_made"]) >= open, "what is open has been opened: {self}");
        let unsound = self.0["unsound"].to_string();
        assert!(!unsound.contains("do not add up"), "{self}");

        let latency = &self.0["latency_ns"];
        let names = ["min", "p50", "p90", "p99", "p99_9", "p99_99", "p99_999", "max"];
        let quantiles = names.map(|name| self.number(&latency[name]));
        assert!(quantiles.is_sorted(), "quantiles rise: {self}");

        let completed = self.0["intervals"]["completed"].as_array().expect("a list").iter();
        let completed = completed.map(|count| self.number(count)).sum::<u64>();
        assert!(completed >= count("correct") + count("wrong"), "intervals cover the window: {self}");
        let window_ns = self.number(&self.0["end_ns"]) - self.number(&self.0["begin_ns"]);
        // If the server was gone at the end, the rate covers the time until its last reply.
        let last_ns = self.0["last_reply_ns"].as_u64();
        let served_ns = match last_ns.filter(|_| self.0["gone"] == true) {
            Some(last_ns) => last_ns - self.number(&self.0["begin_ns"]),
            None => window_ns,
        };
        assert_eq!(
            last_ns.is_some(),
            count("correct") + count("wrong") > 0,
            "the last reply is told: {self}"
        );
        assert_eq!(
            self.0["elapsed_ns"].is_null(),
            last_ns.is_none(),
            "it has elapsed until the last reply: {self}"
        );
        let rate_per_s = count("correct") as f64 / (served_ns as f64 / 1e9);
        let told_per_s = self.float(&self.0["rate_per_s"]);
        assert!((told_per_s - rate_per_s).abs() <= rate_per_s / 1000.0, "{rate_per_s} a second: {self}");
        assert!(
            self.number(&self.0["generator"]["turn_ns_max"]) <= window_ns,
            "a turn is within the window: {self}"
        );
    }

    /// Further invariants of a schedule: every due request is accounted for, and no view exceeds the others.
    pub(crate) fn assert_schedule(&self) {
        let schedule = |name: &str| self.number(&self.0["schedule"][name]);
        assert_eq!(
            schedule("due") + schedule("unsent_begin"),
            self.requests("sent") + schedule("unsent_end"),
            "what was due is conserved: {self}"
        );
        let view = |view: &str, name: &str| self.float(&self.0["views"][view][name]);
        let response = |name: &str| self.float(&self.0["latency_ns"][name]);
        for name in ["min", "p50", "p99", "max"] {
            // Histograms have three digits.
            assert!(view("service_ns", name) <= 1.002 * response(name), "{name}: {self}");
            assert!(view("closed_ns", name) <= 1.002 * view("service_ns", "max"), "{name}: {self}");
        }
    }

    /// A field of the report.
    pub(crate) fn field(&self, path: &str) -> &Value {
        self.0.pointer(path).unwrap_or_else(|| panic!("there is no {path}: {self}"))
    }

    /// The most requests in flight.
    fn room(&self) -> f64 {
        let busy = if self.0["active"].is_null() { &self.0["connections"] } else { &self.0["active"] };
        self.float(busy) * self.float(&self.0["pipeline"])
    }

    /// Whether as many requests as possible were in flight when the window began.
    pub(crate) fn is_busy(&self) -> bool {
        self.float(&self.0["requests"]["in_flight_begin"]) == self.room()
    }

    /// Checks Little's law if as many requests as possible are always in flight: their number is rate times latency.
    pub(crate) fn assert_steady(&self) {
        let room = self.room();
        assert_eq!(self.float(&self.0["requests"]["in_flight_begin"]), room, "{self}");
        assert_eq!(self.float(&self.0["requests"]["in_flight_end"]), room, "{self}");
        // A request in flight at the beginning of the window counts completely, and one in flight at the end not at
        // all. Each thread has its own window.
        let replies = self.requests("correct") + self.requests("wrong");
        let latencies_ns = replies as f64 * self.float(&self.0["latency_ns"]["mean"]);
        let age = |name: &str| self.float(&self.0[name]);
        let ages_ns = age("age_end_ns") + age("age_failed_ns") - age("age_begin_ns");
        let window_ns = self.float(&self.0["generator"]["wall_ns"]) / self.float(&self.0["threads"]);
        let in_flight = (latencies_ns + ages_ns) / window_ns;
        // Nothing is in flight between a reply and the next reading of the clock. The thread driver reads it before
        // each send, and of several replies that arrive together only the first is followed by a request at once. That
        // may take any time on a busy machine.
        let has_gaps = self.0["driver"] == "thread" || self.number(&self.0["pipeline"]) > 1;
        let least = if has_gaps { 0.0 } else { room * (1.0 - LITTLE_TOLERANCE) };
        let most = room * (1.0 + LITTLE_TOLERANCE);
        assert!(
            (least..=most).contains(&in_flight),
            "{in_flight} in flight by Little's law, not {room}: {self}"
        );
    }

    fn number(&self, value: &Value) -> u64 {
        value.as_u64().unwrap_or_else(|| panic!("{value} is not a count: {self}"))
    }

    fn float(&self, value: &Value) -> f64 {
        value.as_f64().unwrap_or_else(|| panic!("{value} is not a number: {self}"))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.clone();
        shown["latency_ns"]["histogram"] = Value::Null;
        shown["intervals"] = Value::Null;
        let views = ["service_ns", "closed_ns", "lateness_ns"].map(|view| format!("/views/{view}/histogram"));
        let parts = ["connect_ns", "write_ns", "wait_ns", "read_ns", "processing_ns"];
        let parts = parts.map(|part| format!("/times/{part}/histogram"));
        for path in views.iter().chain(&parts) {
            if let Some(histogram) = shown.pointer_mut(path) {
                *histogram = Value::Null;
            }
        }
        write!(formatter, "{shown}")
    }
}
