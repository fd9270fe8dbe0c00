//! A logarithmic axis: the positions of values, and its tick labels.

/// An axis from one value to another, with their positions on the drawing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) begin: f64,
    pub(super) end: f64,
}

impl Axis {
    /// An axis of times that begins and ends at round values.
    pub(super) fn of_times(low_ns: f64, high_ns: f64, begin: f64, end: f64) -> Self {
        let first = (0..STEPS_MAX).rev().find(|&step| round(step) <= low_ns).unwrap_or(0);
        let last = (first + 1..STEPS_MAX).find(|&step| round(step) >= high_ns).unwrap_or(STEPS_MAX);
        Self { low: round(first), high: round(last), begin, end }
    }

    /// The position of a value. Values beyond an end get the position of that end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = (value.clamp(self.low, self.high) / self.low).ln() / (self.high / self.low).ln();
        self.begin + share * (self.end - self.begin)
    }

    /// The value at this share of the axis, from 0 to 1.
    pub(super) fn value(&self, share: f64) -> f64 {
        self.low * (self.high / self.low).powf(share)
    }

    /// The ticks: powers of ten, and on a short axis the round values between them.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let on_it = |step: &u32| (self.low..=self.high).contains(&round(*step));
        let steps: Vec<u32> = (0..=STEPS_MAX).filter(on_it).collect();
        let is_short = steps.len() <= TICKS_MAX;
        steps.into_iter().filter(|step| is_short || step % 3 == 0).map(round).collect()
    }
}

/// A round time with its unit, without trailing zeros: `20 µs`.
pub(super) fn label_ns(ns: f64) -> String {
    match ns {
        ..1e3 => format!("{ns} ns"),
        ..1e6 => format!("{} µs", ns / 1e3),
        ..1e9 => format!("{} ms", ns / 1e6),
        _ => format!("{} s", ns / 1e9),
    }
}

/// The sequence of round values: 1, 2, 5, 10, 20, 50 and so on.
pub(super) fn round(step: u32) -> f64 {
    [1.0, 2.0, 5.0][step as usize % 3] * 10f64.powi((step / 3).cast_signed())
}

/// The last is 100 s; longer latencies than a minute are not distinguished.
const STEPS_MAX: u32 = 33;

/// More would not fit side by side.
const TICKS_MAX: usize = 13;

#[cfg(test)]
mod tests {
    use super::{Axis, label_ns};

    /// Expects these labels on an axis of times between these values, the first and the last at its ends or within.
    fn check(low_ns: f64, high_ns: f64, expected: &[&str]) {
        let axis = Axis::of_times(low_ns, high_ns, 50.0, 650.0);
        let labels: Vec<String> = axis.ticks().into_iter().map(label_ns).collect();
        assert_eq!(labels, expected, "{low_ns} to {high_ns}");
        assert!((axis.at(axis.low), axis.at(axis.high)) == (50.0, 650.0));
        let [low, high] = [axis.at(low_ns), axis.at(high_ns)];
        assert!((50.0..=650.0).contains(&low) && (low..=650.0).contains(&high));
        assert!((axis.value(0.5) / (axis.low * axis.high).sqrt() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_short_axis_has_ticks_between_powers_of_ten_and_a_long_one_has_none() {
        check(180e3, 1.9e6, &["100 µs", "200 µs", "500 µs", "1 ms", "2 ms"]);
        check(1e3, 60e9, &["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s"]);
    }

    #[test]
    fn one_value_alone_still_makes_an_axis() {
        check(1.0, 1.0, &["1 ns", "2 ns"]);
        check(5e6, 5e6, &["5 ms", "10 ms"]);
        check(70e9, 70e9, &["50 s", "100 s"]);
    }
}
