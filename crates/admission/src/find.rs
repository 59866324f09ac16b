//! Texts in texts. The standard library's search is made for long texts, and takes 4 KB of the module; ours are short.

/// The text before and after the first `part`.
pub fn split_once<'t>(text: &'t str, part: &str) -> Option<(&'t str, &'t str)> {
    let mut windows = text.as_bytes().windows(part.len().max(1));
    let at = if part.is_empty() { 0 } else { windows.position(|window| window == part.as_bytes())? };
    Some((text.get(..at)?, text.get(at + part.len()..)?))
}

pub fn contains(text: &str, part: &str) -> bool {
    split_once(text, part).is_some()
}

/// The texts between the places of `part`, which is not empty.
pub fn split<'t>(text: &'t str, part: &'static str) -> impl Iterator<Item = &'t str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let (first, after) = split_once(text, part).map_or((text, None), |(first, after)| (first, Some(after)));
        rest = after;
        Some(first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_as_by_the_standard_library() {
        for text in ["", "; ", "a", "a; b", "a;; b; ", "; ; é; x", ";a"] {
            assert_eq!(split_once(text, "; "), text.split_once("; "), "{text}");
            assert_eq!(contains(text, "; "), text.contains("; "), "{text}");
            assert_eq!(split(text, "; ").collect::<Vec<_>>(), text.split("; ").collect::<Vec<_>>(), "{text}");
        }
        for text in ["", "a"] {
            assert_eq!(split_once(text, ""), text.split_once(""));
        }
    }
}
