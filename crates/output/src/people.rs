//! Amounts as people read them: cores, MiB and GiB with two or three digits, one unit in a column. Exact quantities are for
//! manifests, JSON and what Kubernetes says.

use headroom_admission::amount::Quantity;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Cores,
    MiB,
    GiB,
    /// Objects, devices and what else is counted one by one.
    One,
}

const MIB: i128 = 1 << 20;
const GIB: i128 = 1 << 30;

impl Unit {
    /// The unit of a resource, or of a quota's name for it: `requests.memory`. For a column of memory or storage it is the GiB if
    /// none of the amounts is smaller.
    pub fn of<'q>(resource: &str, amounts: impl IntoIterator<Item = &'q Quantity>) -> Self {
        let name = resource.strip_prefix("requests.").or_else(|| resource.strip_prefix("limits.")).unwrap_or(resource);
        let is_small = |amount: &Quantity| !amount.is_zero() && i128::from(amount.value()).abs() < GIB;
        match name {
            "cpu" => Self::Cores,
            name if !is_of_bytes(name) => Self::One,
            _ if amounts.into_iter().any(is_small) => Self::MiB,
            _ => Self::GiB,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Cores => "cores",
            Self::MiB => "MiB",
            Self::GiB => "GiB",
            Self::One => "",
        }
    }

    /// An amount in this unit, without its name: `0.049`, `1.25`, `24.4`, `512`.
    pub fn number(self, amount: &Quantity) -> String {
        let milli = i128::from(amount.milli_value());
        let of_unit = match self {
            Self::Cores | Self::One => milli,
            Self::MiB => milli / MIB,
            Self::GiB => milli / GIB,
        };
        let size = of_unit.abs();
        let decimals = match self {
            Self::One => 0,
            Self::Cores if size < 100 && size > 0 => 3,
            Self::Cores if size < 9_995 => 2,
            _ if size < 99_950 => 1,
            _ => 0,
        };
        let part = 10_i128.pow(3 - decimals);
        let rounded = (size + part / 2) / part;
        let whole = 10_i128.pow(decimals);
        let sign = if of_unit < 0 && rounded > 0 { "-" } else { "" };
        match decimals {
            0 => format!("{sign}{rounded}"),
            _ => format!("{sign}{}.{:0digits$}", rounded / whole, rounded % whole, digits = decimals as usize),
        }
    }
}

fn with_unit(unit: Unit, amount: &Quantity) -> String {
    format!("{} {}", unit.number(amount), unit.name()).trim_end().to_owned()
}

fn is_of_bytes(name: &str) -> bool {
    matches!(name, "memory" | "storage" | "ephemeral-storage")
        || name.starts_with("hugepages-")
        || name.ends_with("/requests.storage")
}

/// An amount with its unit: `0.25 cores`, `1.5 GiB`, `3`.
pub fn amount(resource: &str, amount: &Quantity) -> String {
    with_unit(Unit::of(resource, [amount]), amount)
}

/// Amounts of one resource in one unit; what is no amount, such as `unknown`, stays.
pub fn row<const N: usize>(resource: &str, texts: [&str; N]) -> [String; N] {
    let amounts = texts.map(|text| text.parse::<Quantity>());
    let unit = Unit::of(resource, amounts.iter().flatten());
    let mut amounts = amounts.iter();
    texts.map(|text| match amounts.next() {
        Some(Ok(amount)) => with_unit(unit, amount),
        _ => text.to_owned(),
    })
}

/// Like [`amount`], with a plus where it is more than nothing.
pub fn change(resource: &str, by: &Quantity) -> String {
    format!("{}{}", if by.is_positive() { "+" } else { "" }, amount(resource, by))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_two_or_three_digits() {
        let check = |resource: &str, quantity: &str, expected: &str| {
            assert_eq!(amount(resource, &quantity.parse().unwrap()), expected, "{quantity}");
        };
        check("cpu", "0", "0.00 cores");
        check("cpu", "1m", "0.001 cores");
        check("cpu", "49m", "0.049 cores");
        check("cpu", "250m", "0.25 cores");
        check("requests.cpu", "24493m", "24.5 cores");
        check("cpu", "9999m", "10.0 cores");
        check("cpu", "398850m", "399 cores");
        check("cpu", "-1825m", "-1.83 cores");
        check("memory", "8431Mi", "8.2 GiB");
        check("memory", "545Mi", "545 MiB");
        check("limits.memory", "2477927694336m", "2.3 GiB");
        check("memory", "1536Ki", "1.5 MiB");
        check("memory", "0", "0.0 GiB");
        check("pods", "17", "17");
        check("requests.nvidia.com/gpu", "2", "2");
    }

    #[test]
    fn a_column_has_one_unit() {
        let all = ["2Gi", "0", "512Mi"].map(|text| text.parse::<Quantity>().unwrap());
        assert_eq!(Unit::of("memory", &all), Unit::MiB);
        assert_eq!(Unit::of("memory", all.iter().take(2)), Unit::GiB);
        let row = row("limits.memory", ["2477927694336m", "512Mi", "-", "unknown"]);
        assert_eq!(row, ["2363 MiB", "512 MiB", "-", "unknown"]);
    }
}
