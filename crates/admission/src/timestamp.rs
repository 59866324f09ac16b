//! Points in time as Kubernetes writes them (RFC 3339), to the second.
//!
//! Parses and prints them, and computes the time between two. The shell passes in the current time.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use crate::json::{Malformed, Node};

const SECONDS_A_DAY: i64 = 86_400;

/// A point in time in UTC, in whole seconds; fractions of a second are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Since 1970-01-01T00:00:00Z, not counting leap seconds. Years 0 to 9999, so no difference can overflow.
    unix_seconds: i64,
}

impl Timestamp {
    pub const UNIX_EPOCH: Self = Self { unix_seconds: 0 };

    pub const LATEST: Self = Self { unix_seconds: Self::LAST };

    const FIRST: i64 = -62_167_219_200;
    const LAST: i64 = 253_402_300_799;

    pub fn read(node: Node<'_>) -> Result<Self, Malformed> {
        node.str()?.parse().map_err(|error: &str| node.expected_as(&error))
    }

    /// None if the year does not have four digits.
    pub fn from_unix_seconds(unix_seconds: i64) -> Option<Self> {
        (Self::FIRST..=Self::LAST).contains(&unix_seconds).then_some(Self { unix_seconds })
    }

    pub fn unix_seconds(self) -> i64 {
        self.unix_seconds
    }

    /// The time from `earlier` to this point; none if this is before `earlier`.
    pub fn since(self, earlier: Self) -> Option<Duration> {
        u64::try_from(self.unix_seconds - earlier.unix_seconds).ok().map(Duration::from_secs)
    }
}

/// `2026-11-21T00:00:00Z`
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.unix_seconds.div_euclid(SECONDS_A_DAY);
        let second = self.unix_seconds.rem_euclid(SECONDS_A_DAY);
        let (year, month, day) = date_of(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

impl FromStr for Timestamp {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        read(text).ok_or("not a point in time: expected one such as `2026-11-21T00:00:00Z`")
    }
}

fn read(text: &str) -> Option<Timestamp> {
    let (moment, rest) = text.as_bytes().split_at_checked("2026-11-21T00:00:00".len())?;
    let marks = [4, 7, 10, 13, 16].map(|place| moment.get(place).copied());
    let [Some(b'-'), Some(b'-'), Some(b'T' | b't'), Some(b':'), Some(b':')] = marks else { return None };
    let at = |places: Range<usize>| number(moment.get(places)?);
    let year = at(0..4)?;
    let month = at(5..7).filter(|month| (1..=12).contains(month))?;
    let day = at(8..10).filter(|day| (1..=days_in(year, month)).contains(day))?;
    let hour = at(11..13).filter(|hour| *hour < 24)?;
    let minute = at(14..16).filter(|minute| *minute < 60)?;
    // A leap second counts as the second after it.
    let second = at(17..19).filter(|second| *second <= 60)?;
    let seconds_ahead = offset(without_fraction(rest)?)?;
    let days = days_until(year, month, day);
    let second_of_day = hour * 3600 + minute * 60 + second - seconds_ahead;
    Timestamp::from_unix_seconds(i64::from(days) * SECONDS_A_DAY + i64::from(second_of_day))
}

fn number(digits: &[u8]) -> Option<i32> {
    digits.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i32::from(digit - b'0')))
}

/// The text after a fraction of at least one digit, or after none.
fn without_fraction(text: &[u8]) -> Option<&[u8]> {
    let Some(fraction) = text.strip_prefix(b".") else { return Some(text) };
    let end = fraction.iter().position(|byte| !byte.is_ascii_digit()).filter(|end| *end > 0)?;
    fraction.get(end..)
}

/// Seconds ahead of UTC.
fn offset(text: &[u8]) -> Option<i32> {
    match text {
        [b'Z' | b'z'] => Some(0),
        [sign @ (b'+' | b'-'), a, b, b':', c, d] => {
            let hours = number(&[*a, *b]).filter(|hours| *hours < 24)?;
            let minutes = number(&[*c, *d]).filter(|minutes| *minutes < 60)?;
            let seconds = hours * 3600 + minutes * 60;
            Some(if *sign == b'-' { -seconds } else { seconds })
        }
        _ => None,
    }
}

fn days_in(year: i32, month: i32) -> i32 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

// Both conversions between date and day count let the year begin in March, so that a leap day is the year's last, and
// count in eras of 400 years, which all have 146,097 days.

/// Days from 1970-01-01 until this date.
fn days_until(year: i32, month: i32, day: i32) -> i32 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The date this many days after 1970-01-01.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, unix_seconds: i64) {
        assert_eq!(text.parse::<Timestamp>().unwrap().unix_seconds(), unix_seconds, "{text}");
    }

    #[test]
    fn reads_what_the_api_server_writes() {
        check("1970-01-01T00:00:00Z", 0);
        check("2026-11-21T03:43:26Z", 1_795_232_606);
        check("2024-02-29T12:00:00Z", 1_709_208_000);
        check("2026-11-21T03:43:26.123456Z", 1_795_232_606);
        check("2026-11-21T05:13:26+01:30", 1_795_232_606);
        check("2026-11-20T22:43:26-05:00", 1_795_232_606);
        check("2016-12-31T23:59:60Z", 1_483_228_800);
        check("0000-01-01T00:00:00Z", Timestamp::FIRST);
        check("9999-12-31T23:59:59Z", Timestamp::LAST);
    }

    #[test]
    fn refuses_other_texts() {
        for text in [
            "",
            "null",
            "2026-11-21",
            "2026-11-21T00:00:00",
            "2026-11-21 00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-11-31T00:00:00Z",
            "2026-11-21T24:00:00Z",
            "2026-11-21T00:60:00Z",
            "2026-11-21T00:00:61Z",
            "2026-11-21T00:00:00.Z",
            "2026-11-21T00:00:00Zulu",
            "+026-11-21T00:00:00Z",
            "2026-11-21T00:00:00+1:00",
            "2026-11-21T00:00:00+24:00",
            "9999-12-31T23:59:59-01:00",
            "٢٠٢٦-11-21T00:00:00Z",
        ] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn writing_then_reading_is_the_identity(unix_seconds in Timestamp::FIRST..=Timestamp::LAST) {
            let moment = Timestamp::from_unix_seconds(unix_seconds).unwrap();
            prop_assert_eq!(moment.to_string().parse(), Ok(moment));
        }
    }
}
