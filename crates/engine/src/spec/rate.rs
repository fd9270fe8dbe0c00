//! Rates as people write them: a number, a ramp, or a sequence of steps.

use std::time::Duration;

use contract::Stage;

use crate::units::{duration_text, parse_milliseconds};

/// A profile of rates.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rate(pub(crate) Vec<Stage>);

impl Rate {
    /// How long it lasts; None if its last stage has no end.
    pub(crate) fn duration(&self) -> Option<Duration> {
        let each = self.0.iter().map(|stage| stage.duration_ms.map(Duration::from_millis));
        each.sum()
    }

    /// The duration of its stages without a last one that has no end.
    fn before_last(&self) -> Duration {
        self.0.iter().filter_map(|stage| stage.duration_ms).map(Duration::from_millis).sum()
    }

    /// Checks the length of a run. If every stage has a duration, it must be their sum: nothing is due after them, and
    /// a shorter run would skip some.
    ///
    /// # Errors
    /// One line that says what to write.
    pub(crate) fn check_window(&self, window: Duration) -> Result<(), String> {
        let before = self.before_last();
        let length = duration_text(before);
        match (self.duration(), self.0.last()) {
            (Some(whole), Some(last)) if whole != window => {
                let advice = if last.from_per_s == last.to_per_s {
                    "give the last one no duration".to_owned()
                } else {
                    format!("add one without a duration, as in ,{}", last.to_per_s)
                };
                Err(format!("the stages of --rate take {length} in all: leave out -z, or {advice}"))
            }
            (None, _) if window <= before => {
                Err(format!("the last stage of --rate begins after {length}: give a -z that is longer"))
            }
            _ => Ok(()),
        }
    }
}

/// Parses `2000`, `100-5000:30s` (a ramp), or several stages with commas between them. Only the last may have no
/// duration: `100:10s,500:10s,100`.
///
/// # Errors
/// One line that says how to write a rate.
pub(crate) fn parse(text: &str) -> Result<Rate, String> {
    let parts: Vec<&str> = text.split(',').collect();
    let last = parts.len() - 1;
    if last > 0 && parts.iter().any(|part| part.trim().is_empty()) {
        return Err(format!("`{text}` has a comma too many: remove it"));
    }
    let stage = |(index, part): (usize, &&str)| match stage(part)? {
        Stage { duration_ms: None, .. } if index < last => {
            Err(format!("`{part}` does not say how long: write it as in {part}:10s"))
        }
        stage => Ok(stage),
    };
    parts.iter().enumerate().map(stage).collect::<Result<_, _>>().map(Rate)
}

fn stage(text: &str) -> Result<Stage, String> {
    let (rates, duration) = match text.split_once(':') {
        None => (text, None),
        Some((rates, duration)) => (rates, Some(parse_milliseconds(duration.trim())?)),
    };
    let (from, to) = rates.split_once('-').unwrap_or((rates, rates));
    let (from_per_s, to_per_s) = (number(from)?, number(to)?);
    if duration.is_none() && from_per_s != to_per_s {
        return Err(format!("`{text}` does not say how long the ramp takes: write it as in {text}:30s"));
    }
    let duration_ms = duration.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
    Ok(Stage { from_per_s, to_per_s, duration_ms })
}

fn number(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1e3),
        None => (text, 1.0),
    };
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match digits.parse::<f64>() {
        Ok(number) if is_plain => Ok(number * factor),
        _ => Err(format!("`{text}` is not a rate: write requests a second, as in 2000, 100-5000:30s or 10k")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From, to, and the duration in milliseconds.
    type Parts = (f64, f64, Option<u64>);

    fn check(text: &str, expected: Result<&[Parts], &str>) {
        let expected = expected.map(|stages| {
            let stage =
                |&(from_per_s, to_per_s, duration_ms): &Parts| Stage { from_per_s, to_per_s, duration_ms };
            Rate(stages.iter().map(stage).collect())
        });
        assert_eq!(parse(text), expected.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn a_rate_is_a_number_a_ramp_or_steps() {
        check("2000", Ok(&[(2000.0, 2000.0, None)]));
        check("10k", Ok(&[(10_000.0, 10_000.0, None)]));
        check("0.5", Ok(&[(0.5, 0.5, None)]));
        check("100-5000:30s", Ok(&[(100.0, 5000.0, Some(30_000))]));
        check("100:10s,200:500ms", Ok(&[(100.0, 100.0, Some(10_000)), (200.0, 200.0, Some(500))]));
        check("1-9:1s, 9", Ok(&[(1.0, 9.0, Some(1_000)), (9.0, 9.0, None)]));
    }

    #[test]
    fn a_run_is_as_long_as_the_stages_of_its_rate() {
        check_window("1k-2k:2s", 2_000, Ok(()));
        check_window("1k:1s,2k:500ms", 1_500, Ok(()));
        check_window("2k", 1, Ok(()));
        check_window("1k:1s,2k", 1_001, Ok(()));
        let steps = "the stages of --rate take 2s in all: leave out -z, or give the last one no duration";
        check_window("1k:1s,2k:1s", 3_000, Err(steps));
        check_window("1k:1s,2k:1s", 1_000, Err(steps));
        check_window("1k-2k:2s", 3_000, Err("or add one without a duration, as in ,2000"));
        check_window("1k:1s,2k", 1_000, Err("the last stage of --rate begins after 1s: give a -z that is"));
    }

    fn check_window(rate: &str, window_ms: u64, expected: Result<(), &str>) {
        let checked = parse(rate).expect("it is one").check_window(Duration::from_millis(window_ms));
        match (checked, expected) {
            (Ok(()), Ok(())) => {}
            (Err(message), Err(part)) => assert!(message.contains(part), "{rate}: {message}"),
            (checked, expected) => panic!("{rate} for {window_ms} ms: {checked:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn a_rate_that_is_none_says_how_one_is_written() {
        check("", Err("`` is not a rate: write requests a second, as in 2000, 100-5000:30s or 10k"));
        check("fast", Err("`fast` is not a rate: write requests a second, as in 2000, 100-5000:30s or 10k"));
        check("1e9", Err("`1e9` is not a rate: write requests a second, as in 2000, 100-5000:30s or 10k"));
        check("100-500", Err("`100-500` does not say how long the ramp takes: write it as in 100-500:30s"));
        check("100,200", Err("`100` does not say how long: write it as in 100:10s"));
        check("100:10", Err("`10` has no unit; write 10s or 10ms"));
        check("5k:1s,", Err("`5k:1s,` has a comma too many: remove it"));
        check(",5k", Err("`,5k` has a comma too many: remove it"));
        check("5k,, 6k", Err("`5k,, 6k` has a comma too many: remove it"));
    }
}
