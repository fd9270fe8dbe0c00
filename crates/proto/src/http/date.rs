//! The value of the `Date` field, formatted once a second and copied into every reply.

/// An IMF-fixdate (RFC 9110, section 5.6.7), such as `Sun, 06 Nov 1994 08:49:37 GMT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    unix_s: u64,
    text: [u8; Self::BYTES],
}

impl Date {
    /// The length of every date.
    pub const BYTES: usize = 29;

    /// The date of a second since 1970. The format has four digits for the year, so times after 9999 give its last
    /// second.
    pub fn at(unix_s: u64) -> Self {
        Self { unix_s, text: format(unix_s.min(LAST_S)) }
    }

    /// Changes the second. Formats only if it differs.
    pub fn tick(&mut self, unix_s: u64) {
        if unix_s != self.unix_s {
            *self = Self::at(unix_s);
        }
    }

    /// The text as sent in a reply.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }
}

const DAY_S: u64 = 86_400;

/// `Fri, 31 Dec 9999 23:59:59 GMT`.
const LAST_S: u64 = 253_402_300_799;

fn format(unix_s: u64) -> [u8; Date::BYTES] {
    const WEEKDAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
    const MONTHS: [&[u8; 3]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

    let (days, second) = (unix_s / DAY_S, unix_s % DAY_S);
    let (year, month, day) = civil(days);
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    text[..3].copy_from_slice(WEEKDAYS[(days % 7) as usize]);
    put_digits(&mut text[5..7], day);
    text[8..11].copy_from_slice(MONTHS[month as usize - 1]);
    put_digits(&mut text[12..16], year);
    put_digits(&mut text[17..19], second / 3600);
    put_digits(&mut text[20..22], second / 60 % 60);
    put_digits(&mut text[23..25], second % 60);
    text
}

/// Year, month and day (both from 1) of a day counted from 1970-01-01.
///
/// Eras of 400 years begin on the first of March, which puts the leap day last. The length of a month then follows from
/// its number alone.
fn civil(days_since_1970: u64) -> (u64, u64, u64) {
    const ERA_DAYS: u64 = 146_097;
    const DAYS_FROM_0000_03_01_TO_1970: u64 = 719_468;

    let days = days_since_1970 + DAYS_FROM_0000_03_01_TO_1970;
    let (era, day_of_era) = (days / ERA_DAYS, days % ERA_DAYS);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / (ERA_DAYS - 1)) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

fn put_digits(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(unix_s: u64, want: &str) {
        let mut ticked = Date::at(7);
        ticked.tick(unix_s);
        assert_eq!(core::str::from_utf8(Date::at(unix_s).as_bytes()), Ok(want), "second {unix_s}");
        assert_eq!(ticked.as_bytes(), want.as_bytes(), "second {unix_s}, by tick");
    }

    #[test]
    fn dates_are_those_of_the_gregorian_calendar() {
        check(0, "Thu, 01 Jan 1970 00:00:00 GMT");
        check(784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT");
        check(951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT");
        check(951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT");
        check(951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT");
        check(1_709_164_800, "Thu, 29 Feb 2024 00:00:00 GMT");
        check(1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT");
        check(4_102_444_800, "Fri, 01 Jan 2100 00:00:00 GMT");
        check(4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT");
        check(4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT");
        check(LAST_S, "Fri, 31 Dec 9999 23:59:59 GMT");
        check(u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn the_calendar_never_skips_or_repeats_a_day() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..150_000 {
            assert_eq!(civil(days), (year, month, day), "day {days}");
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length =
                [31, 28 + u64::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month as usize - 1];
            day = day % length + 1;
            month = if day == 1 { month % 12 + 1 } else { month };
            year += u64::from(day == 1 && month == 1);
        }
    }
}
