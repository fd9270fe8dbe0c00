//! Numbers as people write and read them.

use std::time::Duration;

/// Parses a duration with its unit: `500ms`, `10s`, `1.5s`, `1m`, `2h`.
///
/// # Errors
/// One line that says how to write a duration.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let unit_ms = match unit {
        "us" => 1e-3,
        "ms" => 1.0,
        "s" => 1e3,
        "m" => 60e3,
        "h" => 3600e3,
        "" => return Err(format!("`{text}` has no unit; write {text}s or {text}ms")),
        _ => return Err(format!("`{unit}` is not a unit; use us, ms, s, m or h, as in 500ms or 10s")),
    };
    match plain_number(number) {
        Some(number) => {
            Duration::try_from_secs_f64(number * unit_ms / 1e3).map_err(|_| format!("`{text}` is too long"))
        }
        None => Err(format!("`{text}` is not a duration; write it as in 500ms, 10s or 1m")),
    }
}

/// A duration in the form that [`parse_duration`] takes.
pub(crate) fn duration_text(duration: Duration) -> String {
    match duration.as_micros() {
        us if us > 0 && us % 3_600_000_000 == 0 => format!("{}h", us / 3_600_000_000),
        us if us % 1_000_000 == 0 => format!("{}s", us / 1_000_000),
        us if us % 1_000 == 0 => format!("{}ms", us / 1_000),
        us => format!("{us}us"),
    }
}

/// Parses a duration that is counted in milliseconds.
///
/// # Errors
/// Also if it is shorter than a millisecond, but not zero.
pub(crate) fn parse_milliseconds(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        duration if !duration.is_zero() && duration < Duration::from_millis(1) => {
            Err(format!("`{text}` is shorter than a millisecond; write 1ms or more"))
        }
        duration => Ok(duration),
    }
}

/// Parses bits per second with their unit: `800bit`, `56kbit`, `10mbit`, `2.5gbit`.
///
/// # Errors
/// One line that says how to write such a rate.
pub(crate) fn parse_bit_rate(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is not a rate; write it as in 56kbit, 10mbit or 1gbit");
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit_at);
    let unit = match unit {
        "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => return Err(wrong()),
    };
    plain_number(number).map(|number| number * unit).ok_or_else(wrong)
}

/// Parses a percentage, `0.1%`, as a number from 0 to 1.
///
/// # Errors
/// One line that says how to write it.
pub(crate) fn parse_percent(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').and_then(plain_number).filter(|percent| *percent <= 100.0);
    let wrong = || format!("`{text}` is not a share in per cent; write it as in 0.1%, up to 100%");
    percent.map(|percent| percent / 100.0).ok_or_else(wrong)
}

/// A number without a sign or an exponent.
fn plain_number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| plain)
}

/// A duration with three digits and a suitable unit: `843 ns`, `12.3 µs`, `1.20 s`.
pub(crate) fn duration_ns(ns: f64) -> String {
    let (value, unit) = match ns {
        ..999.5 => return format!("{ns:.0} ns"),
        ..999.5e3 => (ns / 1e3, "µs"),
        ..999.5e6 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// An amount of data with three digits and a decimal unit, as networks count: `1.50 MB`.
pub(crate) fn bytes(count: f64) -> String {
    let (value, unit) = match count {
        ..999.5 => return format!("{count:.0} B"),
        ..999.5e3 => (count / 1e3, "kB"),
        ..999.5e6 => (count / 1e6, "MB"),
        _ => (count / 1e9, "GB"),
    };
    format!("{} {unit}", three_digits(value))
}

/// A count with thousands separators: `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count and its noun, in the singular or with an `s`: `1 thread`, `50 connections`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", count(number as u64))
}

fn three_digits(value: f64) -> String {
    match value {
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_unit() {
        check_duration("500ms", Ok(500));
        check_duration("2000us", Ok(2));
        check_duration("10s", Ok(10_000));
        check_duration("1.5s", Ok(1_500));
        check_duration("1m", Ok(60_000));
        check_duration("2h", Ok(7_200_000));
        check_duration("0s", Ok(0));
    }

    #[test]
    fn a_duration_that_is_none_says_how_one_is_written() {
        check_duration("10", Err("`10` has no unit; write 10s or 10ms"));
        check_duration("10sec", Err("`sec` is not a unit; use us, ms, s, m or h, as in 500ms or 10s"));
        check_duration("-1s", Err("`-1s` is not a duration; write it as in 500ms, 10s or 1m"));
        check_duration("s", Err("`s` is not a duration; write it as in 500ms, 10s or 1m"));
        check_duration("1..5s", Err("`1..5s` is not a duration; write it as in 500ms, 10s or 1m"));
        check_duration("", Err("`` has no unit; write s or ms"));
        check_duration("99999999999999999999h", Err("`99999999999999999999h` is too long"));
    }

    #[test]
    fn rates_of_a_path_are_read_with_their_unit_and_shares_in_per_cent() {
        for (text, expected) in
            [("800bit", 800.0), ("56kbit", 56e3), ("10mbit", 1e7), ("2.5gbit", 2.5e9), ("0bit", 0.0)]
        {
            assert_eq!(parse_bit_rate(text), Ok(expected), "rate {text:?}");
        }
        for text in ["10", "10Mbit/s", "mbit", "-1mbit", "1e3bit", ""] {
            let wrong = format!("`{text}` is not a rate; write it as in 56kbit, 10mbit or 1gbit");
            assert_eq!(parse_bit_rate(text), Err(wrong));
        }
        for (text, expected) in [("0.1%", 0.001), ("0%", 0.0), ("100%", 1.0)] {
            assert_eq!(parse_percent(text), Ok(expected), "share {text:?}");
        }
        for text in ["0.001", "101%", "-1%", "%", "1e1%", "nan%"] {
            let wrong = format!("`{text}` is not a share in per cent; write it as in 0.1%, up to 100%");
            assert_eq!(parse_percent(text), Err(wrong));
        }
    }

    #[test]
    fn times_are_shown_with_three_digits_and_the_unit_that_suits_them() {
        check_shown(duration_ns(0.0), "0 ns");
        check_shown(duration_ns(843.0), "843 ns");
        check_shown(duration_ns(1_000.0), "1.00 µs");
        check_shown(duration_ns(12_345.0), "12.3 µs");
        check_shown(duration_ns(99_990.0), "100 µs");
        check_shown(duration_ns(2_500_000.0), "2.50 ms");
        check_shown(duration_ns(999_900_000.0), "1.00 s");
        check_shown(duration_ns(10e9), "10.0 s");
    }

    #[test]
    fn amounts_are_shown_as_networks_count_them() {
        check_shown(bytes(12.0), "12 B");
        check_shown(bytes(1_500_000.0), "1.50 MB");
        check_shown(bytes(2e12), "2000 GB");
        check_shown(count(7), "7");
        check_shown(count(1_234_567), "1,234,567");
        check_shown(count(123_456), "123,456");
        check_shown(counted(1, "thread"), "1 thread");
        check_shown(counted(5000, "connection"), "5,000 connections");
    }

    fn check_duration(text: &str, expected_ms: Result<u64, &str>) {
        let expected = expected_ms.map(Duration::from_millis).map_err(str::to_owned);
        assert_eq!(parse_duration(text), expected, "duration {text:?}");
    }

    fn check_shown(shown: String, expected: &str) {
        assert_eq!(shown, expected);
    }
}
