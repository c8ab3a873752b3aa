//! Decimal digits of numbers. They decide whether SQLite keeps a number exactly, and whether it takes a text for a number.

/// A number by its digits, without the zeros at both ends: digits × 10^exponent. Zero has no digits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Number {
    is_negative: bool,
    digits: String,
    exponent: i64,
}

impl Number {
    /// Parses digits with an optional sign, fraction and exponent, such as `-12.50` and `1e3`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            None => (unsigned, 0),
            Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = [whole, fraction].concat();
        if all.is_empty() || !is_digits(&all) {
            return None;
        }
        let digits = all.trim_end_matches('0');
        let zeros = all.len() - digits.len();
        let exponent = exponent
            .saturating_sub(length(fraction.len()))
            .saturating_add(length(zeros));
        let digits = digits.trim_start_matches('0');
        Some(Self {
            is_negative: text.starts_with('-') && !digits.is_empty(),
            digits: digits.to_owned(),
            exponent: if digits.is_empty() { 0 } else { exponent },
        })
    }

    /// Returns the shortest number that a floating-point number stands for. `None`: it is infinite or not a number.
    pub(super) fn of_double(double: f64) -> Option<Self> {
        Self::parse(&format!("{double:e}"))
    }
}

fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !is_digits(digits) {
        return None;
    }
    // A longer exponent is out of every range.
    let size = digits.parse().unwrap_or(i64::from(i32::MAX));
    Some(if text.starts_with('-') { -size } else { size })
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn length(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// Returns whether a column of numeric affinity would store the text as a number. SQLite ignores spaces around it.
pub(super) fn looks_like_number(text: &str) -> bool {
    let is_space = |char: char| matches!(char, '\t'..='\r' | ' ' | '\0');
    Number::parse(text.trim_matches(is_space)).is_some()
}

/// Returns whether a number is written as usual: without `+`, zeros and spaces before it. Other texts, such as `007`, are
/// codes, and a number would lose a part of them.
pub(super) fn is_plain(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text).as_bytes();
    !matches!(unsigned, [b'+', ..] | [b'0', b'0'..=b'9', ..])
}

/// Returns the exact digits of the shortest number that a floating-point number stands for. `None`: it has more digits than
/// any column of decimals.
pub(super) fn decimal_of_double(double: f64) -> Option<String> {
    /// 38 digits, the sign, the point and the zero before it.
    const MAX_LENGTH: usize = 41;

    let digits = double.to_string();
    (double.is_finite() && digits.len() <= MAX_LENGTH).then_some(digits)
}

/// Appends zeros to decimal digits until they have `scale` decimal places.
pub(super) fn pad(mut digits: String, scale: usize) -> String {
    let places = digits.split_once('.').map_or(0, |(_, places)| places.len());
    if places < scale {
        if places == 0 {
            digits.push('.');
        }
        digits.extend(std::iter::repeat_n('0', scale - places));
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_equal_by_value() {
        for (one, other) in [
            ("1.50", "1.5"),
            ("0.0", "-0"),
            ("1200", "12e2"),
            ("-0.001", "-1E-3"),
            (".5", "+0.5"),
            ("5.", "5"),
        ] {
            let number = Number::parse(one);
            assert!(number.is_some(), "{one}");
            assert_eq!(number, Number::parse(other), "{one} {other}");
        }
        assert_ne!(Number::parse("1.5"), Number::parse("15"));
        assert_ne!(Number::parse("1.5"), Number::parse("-1.5"));
        assert_eq!(Number::of_double(0.1), Number::parse("0.1"));
        assert_ne!(Number::of_double(1e23), Number::parse("1e22"));
    }

    #[test]
    fn text_that_is_no_number_is_not_parsed() {
        for text in [
            "", "-", ".", "e5", "1e", "1e+", "0x10", "inf", "NaN", "1.2.3", "1 2", "١",
        ] {
            assert!(!looks_like_number(text), "{text}");
        }
        assert_eq!(Number::of_double(f64::INFINITY), None);
        assert!(looks_like_number(" \n-1e99999999999999999999\t"));
    }

    #[test]
    fn zeros_are_added_up_to_the_scale() {
        let padded = |digits: &str, scale| pad(digits.to_owned(), scale);
        assert_eq!(padded("7", 2), "7.00");
        assert_eq!(padded("7", 0), "7");
        assert_eq!(padded("-7.125", 2), "-7.125");
        assert_eq!(padded("7.5", 2), "7.50");
    }
}
