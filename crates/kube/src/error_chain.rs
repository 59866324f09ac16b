//! The cause of a failed connection.

use std::error::Error;

/// Errors wrap each other, and the innermost one says what happened: that a connection was refused, or which certificate is
/// not trusted.
pub fn innermost<'e>(mut error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    while let Some(source) = error.source() {
        error = source;
    }
    error
}
