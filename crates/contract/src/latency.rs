//! A distribution of times: a histogram in memory; its percentiles and its packed form in a document.

use std::error::Error;
use std::ops::{Deref, DerefMut};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Latencies have 3 significant digits between 1 ns and an hour; longer ones count as an hour. The memory is the same
/// for any length of run.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// A distribution of times in nanoseconds, all zero where there were none.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "Distribution")]
#[schemars(into = "Distribution")]
// All have the same bounds, so any two can be added.
pub struct Latency(Histogram<u64>);

impl Default for Latency {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS);
        Self(histogram.expect("the bounds are in order and the digits within 0 to 5"))
    }
}

impl From<Histogram<u64>> for Latency {
    fn from(histogram: Histogram<u64>) -> Self {
        Self(histogram)
    }
}

impl Deref for Latency {
    type Target = Histogram<u64>;

    fn deref(&self) -> &Histogram<u64> {
        &self.0
    }
}

impl DerefMut for Latency {
    fn deref_mut(&mut self) -> &mut Histogram<u64> {
        &mut self.0
    }
}

impl Latency {
    /// Adds the measurements of another thread or process.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all histograms have the same bounds");
    }

    /// HdrHistogram V2, deflated, base64.
    pub fn packed(&self) -> String {
        let mut packed = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.0, &mut packed)
            .expect("memory can be written, and counts fit the format");
        STANDARD.encode(packed)
    }
}

/// Its fields as JSON.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Latency")]
struct Distribution {
    min: u64,
    #[schemars(range(min = 0.0))]
    mean: f64,
    p50: u64,
    p90: u64,
    p99: u64,
    p99_9: u64,
    p99_99: u64,
    p99_999: u64,
    max: u64,
    #[schemars(range(min = 0.0))]
    stdev: f64,
    /// HdrHistogram V2, deflated, base64.
    histogram: String,
}

impl Serialize for Latency {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Distribution::from(self).serialize(serializer)
    }
}

impl From<&Latency> for Distribution {
    fn from(latency: &Latency) -> Self {
        Self {
            min: latency.min(),
            mean: latency.mean(),
            p50: latency.value_at_quantile(0.5),
            p90: latency.value_at_quantile(0.9),
            p99: latency.value_at_quantile(0.99),
            p99_9: latency.value_at_quantile(0.999),
            p99_99: latency.value_at_quantile(0.9999),
            p99_999: latency.value_at_quantile(0.99999),
            max: latency.max(),
            stdev: latency.stdev(),
            histogram: latency.packed(),
        }
    }
}

impl TryFrom<Distribution> for Latency {
    type Error = String;

    /// Unpacks the histogram. The other fields are derived from it.
    fn try_from(distribution: Distribution) -> Result<Self, String> {
        let wrong = |error: &dyn Error| format!("a histogram cannot be read: {error}");
        let packed = STANDARD.decode(&distribution.histogram).map_err(|error| wrong(&error))?;
        let unpacked: Histogram<u64> =
            Deserializer::new().deserialize(&mut &packed[..]).map_err(|error| wrong(&error))?;
        let mut latency = Self::default();
        latency.0.add(&unpacked).map_err(|error| wrong(&error))?;
        Ok(latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_the_packed_histogram_say_the_same() {
        let mut latency = Latency::default();
        for value_ns in (1..=1000).map(|index| index * 1_000) {
            latency.record(value_ns).expect("it is in bounds");
        }
        let distribution = Distribution::from(&latency);
        for (shown_ns, exact_ns) in [
            (distribution.min, 1_000.0),
            (distribution.p50, 500_000.0),
            (distribution.p90, 900_000.0),
            (distribution.p99, 990_000.0),
            (distribution.p99_9, 999_000.0),
            (distribution.p99_99, 1_000_000.0),
            (distribution.max, 1_000_000.0),
        ] {
            assert!((shown_ns as f64 / exact_ns - 1.0).abs() < 1e-3, "{shown_ns} is not {exact_ns}");
        }
        assert_eq!(Latency::try_from(distribution).expect("it is a histogram"), latency);
    }

    #[test]
    fn a_run_without_replies_has_a_latency_of_zeroes() {
        let distribution = Distribution::from(&Latency::default());
        assert_eq!((distribution.min, distribution.p99, distribution.max), (0, 0, 0));
        assert_eq!((distribution.mean, distribution.stdev), (0.0, 0.0));
    }
}
