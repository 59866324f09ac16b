//! Request or limit: the two amounts of a resource in Kubernetes' `ResourceRequirements`.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Requirement {
    Request,
    Limit,
}

impl Requirement {
    pub const BOTH: [Self; 2] = [Self::Request, Self::Limit];

    pub fn field(self) -> &'static str {
        match self {
            Self::Request => "requests",
            Self::Limit => "limits",
        }
    }

    pub fn noun(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Limit => "limit",
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.noun())
    }
}
