//! Prices of cores and memory. Exact: whole millionths of the currency unit.

use std::fmt;
use std::str::FromStr;

use headroom_core::amount::Quantity;
use headroom_report::clean::is_hidden;
use serde::{Serialize, Serializer};

/// Prices for a month.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prices {
    /// The price of a core.
    pub cpu: Option<Price>,
    /// The price of a GiB of memory.
    pub memory: Option<Price>,
    pub currency: Option<Currency>,
}

/// The currency of prices: a symbol such as `$`, or a code such as `EUR`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Currency(String);

/// Thousandths of the unit of money.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price(i64);

/// Millionths of the unit of money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(i128);

/// The default weights, as clouds have them: a core costs about as much as 8 GiB.
const USUAL: (Price, Price) = (Price(8_000), Price(1_000));

const GIBIBYTE: i128 = 1 << 30;

impl Prices {
    /// None where nobody says what anything costs.
    pub fn money(&self, cores: &Quantity, bytes: &Quantity) -> Option<Money> {
        if self.cpu.is_none() && self.memory.is_none() {
            return None;
        }
        let nothing = Price(0);
        Some(cost(self.cpu.unwrap_or(nothing), self.memory.unwrap_or(nothing), cores, bytes))
    }

    /// Money with its currency, if that is known: `$35.00`, `35.00 EUR`.
    pub fn shown(&self, money: Money) -> String {
        let Some(Currency(currency)) = &self.currency else { return money.to_string() };
        if currency.starts_with(char::is_alphabetic) {
            return format!("{money} {currency}");
        }
        let sign = if money.0 < 0 { "-" } else { "" };
        format!("{sign}{currency}{}", Money(money.0.abs()))
    }

    /// The weight of amounts when they are compared.
    pub fn weight(&self, cores: &Quantity, bytes: &Quantity) -> Money {
        self.money(cores, bytes).unwrap_or_else(|| cost(USUAL.0, USUAL.1, cores, bytes))
    }
}

fn cost(cpu: Price, memory: Price, cores: &Quantity, bytes: &Quantity) -> Money {
    let of_cpu = i128::from(cores.milli_value()) * i128::from(cpu.0);
    let of_memory = i128::from(bytes.value()) * i128::from(memory.0) * 1_000 / GIBIBYTE;
    Money(of_cpu + of_memory)
}

/// `23.00 EUR a core, 3.00 EUR a GiB`
impl fmt::Display for Prices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |price: Option<Price>, of| {
            price.map(|Price(thousandths)| format!("{} {of}", self.shown(Money(i128::from(thousandths) * 1_000))))
        };
        let known = [shown(self.cpu, "a core"), shown(self.memory, "a GiB")];
        f.write_str(&known.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

impl FromStr for Price {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("`{text}` is not a price for a month: expected a number such as `23.40`");
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let price: Quantity = text.parse().map_err(|_| wrong())?;
        let is_small = price.value() < 1_000_000_000;
        if is_plain && is_small { Ok(Self(price.milli_value())) } else { Err(wrong()) }
    }
}

impl FromStr for Currency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_allowed =
            |character: char| !character.is_numeric() && !character.is_whitespace() && !is_hidden(character);
        let is_short = (1..=8).contains(&text.chars().count());
        if is_short && text.chars().all(is_allowed) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!("`{text}` is not a currency: expected a symbol or a code, such as `$` or `EUR`"))
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// With two decimals, rounded away from zero at half.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cents = (self.0.abs() + 5_000) / 10_000;
        let sign = if self.0 < 0 && cents > 0 { "-" } else { "" };
        write!(f, "{sign}{}.{:02}", cents / 100, cents % 100)
    }
}

impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    #[test]
    fn amounts_cost_what_their_prices_say() {
        let check = |cpu: Option<&str>, memory: Option<&str>, cores: &str, bytes: &str, expected: Option<&str>| {
            let price = |text: Option<&str>| text.map(|text| text.parse().unwrap());
            let prices = Prices { cpu: price(cpu), memory: price(memory), currency: None };
            let money = prices.money(&quantity(cores), &quantity(bytes));
            assert_eq!(money.map(|money| money.to_string()).as_deref(), expected);
        };
        check(None, None, "1", "1Gi", None);
        check(Some("20"), Some("2.5"), "1500m", "2Gi", Some("35.00"));
        check(Some("20"), None, "-250m", "2Gi", Some("-5.00"));
        check(None, Some("3"), "1", "512Mi", Some("1.50"));
        check(Some("0.01"), None, "1m", "0", Some("0.00"));
        check(Some("0.01"), None, "-1m", "0", Some("0.00"));
    }

    #[test]
    fn symbols_stand_before_money_and_codes_behind_it() {
        let check = |currency: &str, millionths: i128, expected: &str| {
            let prices = Prices { currency: Some(currency.parse().unwrap()), ..Prices::default() };
            assert_eq!(prices.shown(Money(millionths)), expected);
        };
        check("$", 35_000_000, "$35.00");
        check("$", -5_000_000, "-$5.00");
        check("EUR", 1_240_500_000, "1240.50 EUR");
        check("CA$", -5_000_000, "-5.00 CA$");
        for wrong in ["", "1", "U S", "\u{202e}", "\n", "dollars of Canada"] {
            assert!(wrong.parse::<Currency>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn without_prices_a_core_counts_for_eight_gibibytes() {
        let none = Prices::default();
        assert!(none.weight(&quantity("1"), &quantity("0")) > none.weight(&quantity("0"), &quantity("7Gi")));
        assert!(none.weight(&quantity("1"), &quantity("0")) < none.weight(&quantity("0"), &quantity("9Gi")));
    }

    #[test]
    fn only_plain_numbers_are_prices() {
        for wrong in ["", "-1", "1Gi", "1e3", "a", "1000000000"] {
            assert!(wrong.parse::<Price>().is_err(), "{wrong}");
        }
    }
}
