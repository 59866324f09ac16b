//! Prices of cores and memory. Exact: whole millionths of the currency unit.

use std::fmt;
use std::str::FromStr;

use headroom_admission::amount::Quantity;
use headroom_output::clean::is_hidden;
use serde::{Serialize, Serializer};

/// Prices for a month.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prices {
    /// The price of a core, in thousandths of the unit of money.
    pub cpu: Option<i64>,
    /// The price of a GiB of memory.
    pub memory: Option<i64>,
    /// A symbol such as `$`, or a code such as `EUR`.
    pub currency: Option<String>,
}

/// Millionths of the unit of money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(i128);

/// The default weights, as clouds have them: a core costs about as much as 8 GiB.
const USUAL: (i64, i64) = (8_000, 1_000);

const GIBIBYTE: i128 = 1 << 30;

/// The price of a core and, after a comma, of a GiB: `23EUR,3EUR`. Either may be missing, and one may name the currency of both.
impl FromStr for Prices {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (cpu, memory) = text.split_once(',').unwrap_or((text, ""));
        let ((cpu, of_cpu), (memory, of_memory)) = (price(cpu.trim())?, price(memory.trim())?);
        if let (Some(one), Some(other)) = (&of_cpu, &of_memory)
            && one != other
        {
            return Err(format!("one price is in {one}, the other in {other}: give both in one currency"));
        }
        Ok(Self { cpu, memory, currency: of_cpu.or(of_memory) })
    }
}

impl Prices {
    /// None where nobody says what anything costs.
    pub fn money(&self, cores: &Quantity, bytes: &Quantity) -> Option<Money> {
        if self.cpu.is_none() && self.memory.is_none() {
            return None;
        }
        Some(cost(self.cpu.unwrap_or(0), self.memory.unwrap_or(0), cores, bytes))
    }

    /// Money with its currency, if that is known: `$35.00`, `35.00 EUR`.
    pub fn shown(&self, money: Money) -> String {
        let Some(currency) = &self.currency else { return money.to_string() };
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

fn cost(cpu: i64, memory: i64, cores: &Quantity, bytes: &Quantity) -> Money {
    let of_cpu = i128::from(cores.milli_value()) * i128::from(cpu);
    let of_memory = i128::from(bytes.value()) * i128::from(memory) * 1_000 / GIBIBYTE;
    Money(of_cpu + of_memory)
}

/// `23.00 EUR a core, 3.00 EUR a GiB`
impl fmt::Display for Prices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |price: Option<i64>, of| {
            price.map(|thousandths| format!("{} {of}", self.shown(Money(i128::from(thousandths) * 1_000))))
        };
        let known = [shown(self.cpu, "a core"), shown(self.memory, "a GiB")];
        f.write_str(&known.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// Reads a price such as `23`, `23EUR` or `$23`, in thousandths of the unit of money; none of an empty text.
fn price(text: &str) -> Result<(Option<i64>, Option<String>), String> {
    if text.is_empty() {
        return Ok((None, None));
    }
    let wrong =
        || format!("`{text}` is not a price for a month: expected a number such as `23.40`, `23.40EUR` or `$23.40`");
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.';
    let number = text.trim_matches(|c| !is_of_number(c));
    let (before, after) = text.split_once(number).ok_or_else(wrong)?;
    let price: Quantity = number.parse().map_err(|_| wrong())?;
    let currency = match format!("{before}{after}") {
        none if none.is_empty() => None,
        text => Some(currency(text)?),
    };
    let is_plain = number.chars().all(is_of_number) && (before.is_empty() || after.is_empty());
    let is_small = price.value() < 1_000_000_000;
    if is_plain && is_small { Ok((Some(price.milli_value()), currency)) } else { Err(wrong()) }
}

/// The text, if it may be a currency.
fn currency(text: String) -> Result<String, String> {
    let is_symbol = |c: char| c == '$' || !c.is_ascii() && !c.is_numeric() && !c.is_whitespace();
    let is_allowed = |c: char| (c.is_alphabetic() || is_symbol(c)) && !is_hidden(c);
    let is_short = (1..=8).contains(&text.chars().count());
    if is_short && text.chars().all(is_allowed) {
        return Ok(text);
    }
    Err(format!("`{text}` is not a currency: expected a symbol or a code, such as `$` or `EUR`"))
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
        let check = |prices: &str, cores: &str, bytes: &str, expected: Option<&str>| {
            let prices: Prices = prices.parse().unwrap();
            let money = prices.money(&quantity(cores), &quantity(bytes));
            assert_eq!(money.map(|money| money.to_string()).as_deref(), expected);
        };
        check("", "1", "1Gi", None);
        check("20,2.5", "1500m", "2Gi", Some("35.00"));
        check("20", "-250m", "2Gi", Some("-5.00"));
        check(",3", "1", "512Mi", Some("1.50"));
        check("0.01", "1m", "0", Some("0.00"));
        check("0.01", "-1m", "0", Some("0.00"));
    }

    #[test]
    fn symbols_stand_before_money_and_codes_behind_it() {
        let check = |of: &str, millionths: i128, expected: &str| {
            let prices = Prices { currency: Some(currency(of.to_owned()).unwrap()), ..Prices::default() };
            assert_eq!(prices.shown(Money(millionths)), expected);
        };
        check("$", 35_000_000, "$35.00");
        check("$", -5_000_000, "-$5.00");
        check("EUR", 1_240_500_000, "1240.50 EUR");
        check("CA$", -5_000_000, "-5.00 CA$");
        for wrong in ["", "1", "U S", "\u{202e}", "\n", "dollars of Canada"] {
            assert!(currency(wrong.to_owned()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn without_prices_a_core_counts_for_eight_gibibytes() {
        let none = Prices::default();
        assert!(none.weight(&quantity("1"), &quantity("0")) > none.weight(&quantity("0"), &quantity("7Gi")));
        assert!(none.weight(&quantity("1"), &quantity("0")) < none.weight(&quantity("0"), &quantity("9Gi")));
    }

    #[test]
    fn a_price_is_a_number_with_the_currency_of_both() {
        for wrong in ["-1", "1e3", "a", "EUR", "1000000000", "$1EUR", "1 EUR", "1,5,", "1.2.3"] {
            assert!(wrong.parse::<Prices>().is_err(), "{wrong}");
        }
        let check = |prices: &str, expected: Result<&str, &str>| {
            let shown = prices.parse::<Prices>().map(|prices| prices.to_string());
            assert_eq!(shown.as_deref().map_err(String::as_str), expected);
        };
        check("23EUR,3", Ok("23.00 EUR a core, 3.00 EUR a GiB"));
        check("$23.40, 3$", Ok("$23.40 a core, $3.00 a GiB"));
        check("23EUR,$3", Err("one price is in EUR, the other in $: give both in one currency"));
    }
}
