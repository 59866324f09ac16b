//! Examples of parsing, printing and adding quantities.

mod conformance;
mod model;

use headroom_core::amount::{Family, Quantity};

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap()
}

fn check_canonical(rows: &[(&str, &str)]) {
    for (written, canonical) in rows {
        assert_eq!(quantity(written).to_string(), *canonical, "`{written}`");
    }
}

fn check_refused(rows: &[(&str, &str)]) {
    for (written, message) in rows {
        let error = written.parse::<Quantity>().unwrap_err();
        assert_eq!(error.to_string(), *message);
    }
}

#[test]
fn the_largest_suffix_with_a_whole_number_is_printed() {
    check_canonical(&[
        ("1.5", "1500m"),
        ("1000m", "1"),
        ("1.500", "1500m"),
        ("1500000u", "1500m"),
        ("1000001n", "1000001n"),
        ("1.000001", "1000001u"),
        ("-1.000000001", "-1000000001n"),
        ("-0.5", "-500m"),
        ("1000", "1k"),
        ("1024", "1024"),
        ("999999E", "999999E"),
        ("18446744073709551616k", "18446744073709551616k"),
    ]);
}

#[test]
fn binary_suffixes_are_for_whole_bytes_from_1ki_up() {
    check_canonical(&[
        ("1024Ki", "1Mi"),
        ("1000Ki", "1000Ki"),
        ("1025Ki", "1025Ki"),
        ("1.5Ki", "1536"),
        ("0.5Ki", "512"),
        ("0.9765625Ki", "1k"),
        ("1464.84375Ki", "1500000"),
        ("-1Ki", "-1Ki"),
        ("0.1Gi", "107374182400m"),
        ("0.0001Ki", "102400u"),
        ("4Ei", "4Ei"),
    ]);
}

#[test]
fn exponents_print_in_steps_of_three() {
    check_canonical(&[
        ("1e5", "100e3"),
        ("1E3", "1e3"),
        ("1e+3", "1e3"),
        ("15e-1", "1500e-3"),
        ("1e0", "1"),
        ("12e-4", "1200e-6"),
        ("1e29", "100e27"),
        ("1e-100", "1e-9"),
        ("1e0000000000000000000003", "1e3"),
    ]);
}

#[test]
fn zero_is_always_0() {
    check_canonical(&[("0", "0"), ("-0", "0"), ("+0.00", "0"), ("0Mi", "0"), ("0e9", "0"), ("0m", "0"), (".0", "0")]);
}

#[test]
fn multiples_of_a_thousand_exa_print_their_digits() {
    check_canonical(&[("1000E", "1000000000000000000000"), ("-5000E", "-5000000000000000000000"), ("1001E", "1001E")]);
}

#[test]
fn parts_below_a_nano_round_away_from_zero() {
    check_canonical(&[
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1.0000000001", "1000000001n"),
        ("1e-100", "1e-9"),
        ("0.00000000000000000000000000000000000001Ki", "1n"),
    ]);
}

#[test]
fn binary_suffixes_are_capped_at_the_largest_64_bit_number() {
    check_canonical(&[
        ("8Ei", "9223372036854775807"),
        ("9223372036854775807Ki", "9223372036854775807"),
        ("100000000000000000000.5Mi", "9223372036854775807"),
        ("7.99999999999999999999Ei", "9223372036854775807"),
        ("-9Ei", "-9223372036854775807"),
    ]);
    assert_eq!(quantity("4Ei").plus(&quantity("4Ei")).to_string(), "8Ei");
}

#[test]
fn amounts_are_exact_up_to_the_largest() {
    check_canonical(&[
        (MAX, MAX),
        ("-170141183460469231731687303715e0", "-170141183460469231731687303715"),
        ("170141183460469231731687303714.999999999", "170141183460469231731687303714999999999n"),
        ("9223372036854775807.999999999", "9223372036854775807999999999n"),
        ("00000000000000000000000000000000000000000000000000000000000001", "1"),
        ("100000000000000000000000000000000000000000000000000000000000e-60", "100e-3"),
        ("0e100", "0"),
    ]);
    let large = quantity("1e29");
    assert_eq!(large.plus(&quantity("1n")).minus(&large), quantity("1n"));
    assert!(large > quantity("9223372036854775807"));
    assert!(quantity("-1e29") < quantity("-9223372036854775808"));
}

const MAX: &str = "170141183460469231731687303715";

#[test]
fn larger_amounts_are_refused() {
    for text in ["170141183460469231731687303715000000001n", "-170141183460469231731687303716", "1e30", "1e100"] {
        let message = format!("`{text}` is not a quantity: it must be from -{MAX} to {MAX}");
        check_refused(&[(text, &message)]);
    }
    let digits = "9".repeat(200);
    assert!(digits.parse::<Quantity>().is_err());
    assert!(format!("{digits}e-100").parse::<Quantity>().is_err());
}

#[test]
fn a_result_beyond_the_largest_amount_exceeds_every_amount_and_stays_beyond() {
    let (max, one) = (quantity(MAX), quantity("1n"));
    let beyond = max.plus(&one);
    for result in [
        beyond.clone(),
        max.times_count(2),
        max.scaled(3, 2),
        max.rounded_up_to_multiple_of(&quantity("1.5e29")),
        beyond.minus(&max),
        one.plus(&beyond),
        beyond.times_count(0),
        beyond.rounded_up_to_milli(),
    ] {
        assert!(result.is_out_of_range() && result > max, "{result}");
        assert_eq!(result.to_string(), format!(">{MAX}"));
        assert!(result.to_string().parse::<Quantity>().is_err());
    }
    for result in
        [quantity("-1").minus(&max), one.minus(&beyond), max.times_count(3).to_family(Family::BinarySi).scaled(1, 9)]
    {
        assert!(result.is_out_of_range());
    }
    assert!(one.minus(&beyond) < one.minus(&max));
    assert_eq!(one.minus(&beyond).to_string(), format!("<-{MAX}"));
    assert!(!max.is_out_of_range() && !max.rounded_up_to_units().is_out_of_range());
    // Nothing is known of its ratio, so a bound of the ratio refuses it.
    assert!(Quantity::exceeds_ratio(&beyond, &max, &max) && Quantity::exceeds_ratio(&one, &beyond, &max));
    assert_eq!(Quantity::ratio_text(&beyond, &max), "out of range");
}

#[test]
fn text_without_a_digit_is_not_zero() {
    check_refused(&[
        ("lots", "`lots` is not a quantity: expected a number such as `500m` or `1.5Gi`"),
        ("", "`` is not a quantity: expected a number such as `500m` or `1.5Gi`"),
        ("m", "`m` is not a quantity: expected a number such as `500m` or `1.5Gi`"),
        ("-.Gi", "`-.Gi` is not a quantity: expected a number such as `500m` or `1.5Gi`"),
        ("--1", "`--1` is not a quantity: expected a number such as `500m` or `1.5Gi`"),
        (" 1", "` 1` is not a quantity: expected a number such as `500m` or `1.5Gi`"),
        ("\n", "`\\n` is not a quantity: expected a number such as `500m` or `1.5Gi`"),
    ]);
}

/// Found by `make fuzz`.
#[test]
fn escapes_do_not_make_a_message_long() {
    let shown = r"\u{0}".repeat(8);
    let suffix = r"\u{0}".repeat(8);
    let allowed = "allowed are n u m k M G T P E, Ki Mi Gi Ti Pi Ei and exponents such as `e3`";
    let message = format!("`1{shown}…` is not a quantity: `{suffix}…` is not a suffix, {allowed}");
    check_refused(&[(&format!("1{}", "\0".repeat(40)), &message)]);
}

#[test]
fn the_error_of_a_mistyped_suffix_proposes_the_right_one() {
    check_refused(&[
        ("1gb", "`1gb` is not a quantity: `gb` is not a suffix, write `G` or `Gi`"),
        ("1Gib", "`1Gib` is not a quantity: `Gib` is not a suffix, write `Gi`"),
        ("1K", "`1K` is not a quantity: `K` is not a suffix, write `k` or `Ki`"),
        ("100mb", "`100mb` is not a quantity: `mb` is not a suffix, write `M` or `Mi`"),
        ("100 m", "`100 m` is not a quantity: ` m` is not a suffix, write `m`"),
        ("100M i", "`100M i` is not a quantity: `M i` is not a suffix, write `Mi`"),
        ("64bytes", "`64bytes` is not a quantity: `bytes` is not a suffix, write the number alone"),
        ("2 cores", "`2 cores` is not a quantity: ` cores` is not a suffix, write the number alone"),
        ("1 ", "`1 ` is not a quantity: ` ` is not a suffix, write the number alone"),
    ]);
}

#[test]
fn the_error_of_an_unknown_suffix_lists_the_allowed_ones() {
    let allowed = "allowed are n u m k M G T P E, Ki Mi Gi Ti Pi Ei and exponents such as `e3`";
    for (written, suffix) in [
        ("1i", "i"),
        ("1e", "e"),
        ("1e+", "e+"),
        ("2e3m", "e3m"),
        ("1.2.3", ".3"),
        ("0x10", "x10"),
        ("1_000", "_000"),
        ("1,5Gi", ",5Gi"),
        ("2 apples", " apples"),
        ("1١", "١"),
    ] {
        let message = format!("`{written}` is not a quantity: `{suffix}` is not a suffix, {allowed}");
        check_refused(&[(written, &message)]);
    }
}

#[test]
fn huge_exponents_and_long_numbers_are_refused() {
    check_refused(&[
        ("1e101", "`1e101` is not a quantity: its exponent must be from -100 to 100"),
        ("0e-101", "`0e-101` is not a quantity: its exponent must be from -100 to 100"),
        ("1e4294967296", "`1e4294967296` is not a quantity: its exponent must be from -100 to 100"),
    ]);
    let longest = format!("{}1", "0".repeat(199));
    assert_eq!(quantity(&longest).to_string(), "1");
    let shown = "0".repeat(40);
    let message = format!("`{shown}…` is not a quantity: it must have at most 200 characters");
    check_refused(&[(&format!("{longest}1"), &message)]);
}

#[test]
fn json_text_may_have_blanks_around_it() {
    for (written, same) in [(" 1Gi\t\n", "1Gi"), ("1e3", "1k"), ("0.5", "500m"), ("\u{a0}4", "4")] {
        assert_eq!(Quantity::from_json_text(written).unwrap(), quantity(same));
    }
    assert!(Quantity::from_json_text("1 Gi").is_err());
}

#[test]
fn a_sum_keeps_the_left_family_unless_the_left_is_zero() {
    for (a, b, sum, difference) in [
        ("0", "1Gi", "1Gi", "-1Gi"),
        ("0Gi", "1G", "1G", "-1G"),
        ("1G", "1Gi", "2073741824", "-73741824"),
        ("1Gi", "500m", "1073741824500m", "1073741823500m"),
        ("1Gi", "0", "1Gi", "1Gi"),
        ("1e3", "1k", "2e3", "0"),
        ("9223372036854775807", "1m", "9223372036854775807001m", "9223372036854775806999m"),
        ("-9223372036854775808", "1n", "-9223372036854775807999999999n", "-9223372036854775808000000001n"),
    ] {
        assert_eq!(quantity(a).plus(&quantity(b)).to_string(), sum, "{a} + {b}");
        assert_eq!(quantity(a).minus(&quantity(b)).to_string(), difference, "{a} - {b}");
    }
}

#[test]
fn sixty_four_bit_values_round_away_from_zero_and_saturate() {
    for (written, value, milli) in [
        ("1n", 1, 1),
        ("-1n", -1, -1),
        ("-1500001u", -2, -1501),
        ("9223372036854775807", i64::MAX, i64::MAX),
        ("-9223372036854775808", i64::MIN, i64::MIN),
        ("9223372036854775806.1", i64::MAX, i64::MAX),
        ("9223372036854775807m", 9_223_372_036_854_776, i64::MAX),
        ("-9223372036854775808m", -9_223_372_036_854_776, i64::MIN),
        ("18446744073709551616", i64::MAX, i64::MAX),
        ("-1e29", i64::MIN, i64::MIN),
    ] {
        let quantity = quantity(written);
        assert_eq!((quantity.value(), quantity.milli_value()), (value, milli), "`{written}`");
    }
}

#[test]
fn rounding_goes_away_from_zero_and_keeps_the_family() {
    let gigabyte_and_a_bit = quantity("1Gi").plus(&quantity("1n"));
    assert_eq!(gigabyte_and_a_bit.rounded_up_to_units().to_string(), "1073741825");
    assert_eq!(gigabyte_and_a_bit.rounded_up_to_multiple_of(&quantity("64Mi")).to_string(), "1088Mi");
    assert_eq!(gigabyte_and_a_bit.rounded_up_to_units().family(), Family::BinarySi);
    assert_eq!(quantity("-1.2").rounded_up_to_units().to_string(), "-2");
    assert_eq!(quantity("-100u").rounded_up_to_milli().to_string(), "-1m");
    assert_eq!(quantity("999999999n").rounded_up_to_milli().to_string(), "1");
    assert_eq!(quantity("9223372036854775807.5").rounded_up_to_units().to_string(), "9223372036854775808");
    assert_eq!(quantity("110m").rounded_up_to_multiple_of(&quantity("-50m")).to_string(), "150m");
    assert_eq!(quantity("110m").rounded_up_to_multiple_of(&Quantity::ZERO).to_string(), "110m");
}

#[test]
fn amounts_scale_by_counts_and_fractions() {
    assert_eq!(quantity("250Mi").times_count(4).to_string(), "1000Mi");
    assert_eq!(quantity("-1500m").times_count(3).to_string(), "-4500m");
    assert_eq!(quantity("1").times_count(u64::MAX).to_string(), "18446744073709551615");
    assert_eq!(quantity("200m").scaled(115, 100).to_string(), "230m");
    assert_eq!(quantity("1").scaled(1, 3).to_string(), "333333334n");
    assert_eq!(quantity("-1").scaled(1, 3).to_string(), "-333333334n");
    assert_eq!(quantity("1").scaled(2, 0).to_string(), "2");
}

#[test]
fn a_ratio_is_exceeded_only_by_larger_ratios() {
    let exceeds =
        |limit, request, ratio| Quantity::exceeds_ratio(&quantity(limit), &quantity(request), &quantity(ratio));
    assert!(!exceeds("2", "1", "2"));
    assert!(exceeds("2001m", "1", "2"));
    assert!(!exceeds("3Gi", "2Gi", "1.5"));
    assert!(exceeds("3221225473", "2Gi", "1.5"));
    // Beyond the precision of a float, and beyond 64 bits.
    assert!(exceeds("18014398509481985", "9007199254740992", "2"));
    assert!(exceeds("18446744073709551616", "1", "1000"));
    assert!(exceeds("1e29", "1e28", "9.999999999"));
    assert!(!exceeds("1e29", "1e28", "10"));
    assert!(!exceeds(MAX, MAX, MAX));
    assert!(exceeds("1000000001n", "1", "1"));
}

#[test]
fn a_ratio_prints_to_six_decimals_half_to_even() {
    let text = |limit, request| Quantity::ratio_text(&quantity(limit), &quantity(request));
    assert_eq!(text("1", "3"), "0.333333");
    assert_eq!(text("2", "3"), "0.666667");
    assert_eq!(text("2Gi", "1Gi"), "2.000000");
    assert_eq!(text("1", "2000000"), "0.000000");
    assert_eq!(text("3", "2000000"), "0.000002");
    assert_eq!(text("-3", "2"), "-1.500000");
    assert_eq!(text("-1n", "1E"), "0.000000");
    assert_eq!(text("1e29", "1e-9"), format!("1{}.000000", "0".repeat(38)));
    assert_eq!(text("1e29", MAX), "0.587747");
    assert_eq!(text("170141183460469231731687303714", MAX), "1.000000");
    assert_eq!(text("1", "0"), "+Inf");
}

#[test]
fn printing_respects_a_width() {
    assert_eq!(format!("{:>6}|{:<6}|", quantity("1Gi"), quantity("500m")), "   1Gi|500m  |");
}
