//! Name patterns in the settings: `*` matches any run of characters, every other character itself.
//!
//! There is no other syntax, because names (of images, containers, namespaces) need no classes or escapes, and because
//! each piece between wildcards is then searched only once, so that no name can make matching slow.

use crate::find;

/// True if `pattern` matches the whole of `text`.
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(head) else { return false };
    let (between, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    // The first occurrence of each piece leaves the most text for the later pieces, so no other needs to be tried.
    for piece in between.split('*') {
        match find::split_once(text, piece) {
            Some((_, after)) => text = after,
            None => return false,
        }
    }
    text.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_definition_on_every_short_text() {
        /// The definition, tried in every way.
        fn model(pattern: &[u8], text: &[u8]) -> bool {
            match (pattern.split_first(), text.split_first()) {
                (None, None) => true,
                (Some((b'*', rest)), _) => (0..=text.len()).any(|taken| model(rest, &text[taken..])),
                (Some((p, rest)), Some((t, after))) => p == t && model(rest, after),
                _ => false,
            }
        }
        fn words(alphabet: &str, longest: usize) -> Vec<String> {
            let mut words = vec![String::new()];
            let mut last = words.clone();
            for _ in 0..longest {
                last = last.iter().flat_map(|word| alphabet.chars().map(move |c| format!("{word}{c}"))).collect();
                words.extend(last.clone());
            }
            words
        }
        let texts = words("ab", 5);
        for pattern in words("ab*", 6) {
            for text in &texts {
                assert_eq!(matches(&pattern, text), model(pattern.as_bytes(), text.as_bytes()), "{pattern} on {text}");
            }
        }
    }
}
