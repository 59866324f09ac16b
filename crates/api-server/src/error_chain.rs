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

/// The innermost error in words, with advice where it says nothing to a person.
pub fn cause_of(error: &(dyn Error + 'static)) -> String {
    let text = innermost(error).to_string();
    // The error behind it has no type that could be asked.
    match text.contains("CaUsedAsEndEntity") {
        true => "the server's certificate is its own CA (`openssl req -x509` makes such): let a CA sign it, and put that CA into the \
                 kubeconfig"
            .to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_is_its_own_ca_comes_with_advice() {
        let told = |text: &str| cause_of(&std::io::Error::other(text));
        assert_eq!(told("connection refused"), "connection refused");
        assert!(told("invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))").contains("let a CA sign it"));
    }
}
