//! The documents of the panels as they were read last: of texts that are read again after each key, only the document that changed is
//! parsed again. Parsing is half of an evaluation.

use headroom_objects::manifest::documents::Parsed;

#[derive(Debug, Default)]
pub struct Memo {
    /// Those that were not met again yet, the next one at the end.
    last: Vec<Read>,
    now: Vec<Read>,
}

#[derive(Debug)]
struct Read {
    text: String,
    parsed: Parsed,
}

/// So many documents may be deleted at once before those behind them are parsed again.
const AHEAD: usize = 64;

impl Memo {
    /// Begins to read the panels again, from the first one on.
    pub fn begin(&mut self) {
        self.last = std::mem::take(&mut self.now);
        self.last.reverse();
    }

    /// Reads a document, by `parse` unless it is known.
    pub fn parse(&mut self, text: &str, parse: impl FnOnce(&str) -> Parsed) -> Parsed {
        let found = self.last.iter().rev().take(AHEAD).position(|read| read.text == text);
        let met = found.and_then(|deleted| {
            self.last.truncate(self.last.len() - deleted);
            self.last.pop()
        });
        let read = met.unwrap_or_else(|| Read { text: text.to_owned(), parsed: parse(text) });
        let parsed = read.parsed.clone();
        self.now.push(read);
        parsed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_objects::manifest::documents::parse;

    #[test]
    fn what_is_read_again_is_what_parsing_says_whatever_was_added_changed_or_deleted() {
        let mut memo = Memo::default();
        let mut check = |texts: &[&str], parsed_anew: usize| {
            memo.begin();
            let mut count = 0;
            for text in texts {
                let counted = |text: &str| {
                    count += 1;
                    parse(text)
                };
                assert_eq!(memo.parse(text, counted), parse(text));
            }
            assert_eq!(count, parsed_anew, "{texts:?}");
        };
        check(&["a: 1", "b: 2", "c: ["], 3);
        check(&["a: 1", "b: 2", "c: ["], 0);
        check(&["a: 1", "b: 3", "c: ["], 1);
        check(&["new: 0", "a: 1", "b: 3", "c: ["], 1);
        check(&["b: 3", "c: ["], 0);
        check(&["c: [", "b: 3"], 1);
        check(&[], 0);
        check(&["b: 3"], 1);
    }
}
