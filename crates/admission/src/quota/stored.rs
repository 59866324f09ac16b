//! Stored objects as quota evaluation needs them.

use crate::json::{Malformed, Node};
use crate::quota::{ChargedKind, Measure, QuotaObject};
use crate::request::{self, Pod};

/// A stored object, and what [`Self::object`] borrows.
#[derive(Debug, Clone)]
pub struct Stored<'d> {
    kind: ChargedKind<'d>,
    source: request::Object<'d>,
    pod: Option<Pod<'d>>,
}

impl<'d> Stored<'d> {
    pub fn read(kind: ChargedKind<'d>, node: Node<'d>) -> Result<Self, Malformed> {
        let source = request::Object::stored(node)?;
        let pod = (kind.measure == Measure::Pod).then(|| Pod::read(node, source.status)).transpose()?;
        Ok(Self { kind, source, pod })
    }

    pub fn object(&self) -> QuotaObject<'_, 'd> {
        QuotaObject::alone(self.kind, self.source, self.pod.as_ref())
    }
}
