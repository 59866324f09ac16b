//! Workloads that are kept empty on purpose, whose requests are not lowered.

use std::fmt;

/// The reason why a workload requests more than it uses. It displays as the flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// Others displace it: by its `priority -10` or `pause image`.
    Reserve(String),
    /// This workload runs the same: a Service selects it and may be switched, or it leads.
    Twin(String),
    /// The busy peer of a database.
    Standby(String),
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserve(_) => f.write_str("reserve"),
            Self::Twin(of) => write!(f, "twin of {of}"),
            Self::Standby(of) => write!(f, "standby of {of}"),
        }
    }
}

impl Kept {
    pub fn reason(&self) -> String {
        match self {
            Self::Reserve(why) => format!("it keeps room for others ({why}), so its request is not lowered"),
            Self::Twin(of) | Self::Standby(of) => {
                format!("it may take over from {of}, so its request is not lowered: size both alike")
            }
        }
    }
}
