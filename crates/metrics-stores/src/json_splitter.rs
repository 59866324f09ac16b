//! A streaming splitter of JSON arrays: hands over the elements of a response as its bytes arrive, so that a response of any size
//! is read in the memory of its largest element.
//!
//! An element is one of the long array in the response, or a whole document if several follow each other. The splitter only finds
//! where elements start and end; their reader checks them. The rest of the response (the envelope) is returned at the end: a
//! response that was cut off leaves an envelope, or an element, that does not end.

use super::SourceError;

/// The maximum length of an element, which bounds memory.
const MAX_ELEMENT_BYTES: usize = 32 << 20;

/// The parts that a response is split into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// The first array under this key, in an object this deep: `{"items":[…]}` is at depth 1,
    /// `{"data":{"result":[…]}}` at depth 2.
    ArrayAt(usize, &'static str),
    /// JSON documents one after another.
    Documents,
}

/// Takes each element. An error of its ends the reading.
pub type EachElement<'a> = &'a mut (dyn FnMut(&[u8]) -> Result<(), SourceError> + Send);

/// Splits one response; see [`Splitter::feed`].
#[derive(Debug)]
pub struct Splitter {
    split: Split,
    /// The number of objects and arrays that are open.
    depth: usize,
    /// The depth of elements; `None` before the array.
    level: Option<usize>,
    in_string: bool,
    escaped: bool,
    in_element: bool,
    /// The start of an element whose end has not arrived.
    started: Vec<u8>,
    envelope: Vec<u8>,
}

impl Splitter {
    pub fn new(split: Split) -> Self {
        Self {
            split,
            depth: 0,
            level: (split == Split::Documents).then_some(0),
            in_string: false,
            escaped: false,
            in_element: false,
            started: Vec::new(),
            envelope: Vec::new(),
        }
    }

    /// Takes the next bytes of the response and hands over each element that they complete.
    pub fn feed(&mut self, bytes: &[u8], each: EachElement<'_>) -> Result<(), SourceError> {
        let mut from = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            if self.in_string {
                self.in_string = self.escaped || byte != b'"';
                self.escaped = !self.escaped && byte == b'\\';
            } else {
                match byte {
                    b'"' => self.in_string = true,
                    b'{' | b'[' => {
                        if Some(self.depth) == self.level {
                            self.in_element = true;
                            from = at;
                        }
                        if self.opens_the_array(byte) {
                            self.level = Some(self.depth + 1);
                        }
                        self.depth += 1;
                    }
                    b'}' | b']' => {
                        self.depth = self.depth.saturating_sub(1);
                        if self.in_element && Some(self.depth) == self.level {
                            self.complete(bytes.get(from..=at).unwrap_or_default(), each)?;
                            continue;
                        }
                        if self.level.is_some_and(|level| self.depth < level) {
                            self.level = None;
                        }
                    }
                    _ => {}
                }
            }
            let between_elements = Some(self.depth) == self.level && !self.in_element;
            if !self.in_element && !(between_elements && (byte == b',' || byte.is_ascii_whitespace())) {
                self.envelope.push(byte);
            }
        }
        if self.in_element {
            self.started.extend_from_slice(bytes.get(from..).unwrap_or_default());
        }
        let held = self.started.len().max(self.envelope.len());
        if held > MAX_ELEMENT_BYTES {
            return Err(SourceError::Permanent(format!(
                "a single part of the response is longer than {} MiB: this is not a metrics store's response",
                MAX_ELEMENT_BYTES >> 20
            )));
        }
        Ok(())
    }

    /// The response without its elements; an error if it ended inside one.
    pub fn finish(self) -> Result<Vec<u8>, SourceError> {
        if self.in_element {
            return Err(truncated());
        }
        Ok(self.envelope)
    }

    fn complete(&mut self, last: &[u8], each: EachElement<'_>) -> Result<(), SourceError> {
        self.in_element = false;
        if self.started.is_empty() {
            return each(last);
        }
        self.started.extend_from_slice(last);
        let done = each(&self.started);
        self.started.clear();
        done
    }

    /// Returns true if the bracket after the envelope so far opens the array.
    fn opens_the_array(&self, bracket: u8) -> bool {
        let Split::ArrayAt(depth, key) = self.split else { return false };
        if self.level.is_some() || self.depth != depth || bracket != b'[' {
            return false;
        }
        let before = self.envelope.trim_ascii_end();
        before
            .strip_suffix(b":")
            .and_then(|before| before.trim_ascii_end().strip_suffix(b"\""))
            .and_then(|before| before.strip_suffix(key.as_bytes()))
            .is_some_and(|before| before.ends_with(b"\""))
    }
}

/// The response ended too early, because the connection broke. A retry may help.
pub fn truncated() -> SourceError {
    SourceError::Temporary("the answer ends in the middle: the connection or the server broke off".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(split: Split, text: &str, chunk: usize) -> (Vec<String>, Result<String, SourceError>) {
        let mut found = Vec::new();
        let mut elements = Splitter::new(split);
        for bytes in text.as_bytes().chunks(chunk) {
            elements
                .feed(bytes, &mut |element| {
                    found.push(String::from_utf8(element.to_vec()).unwrap());
                    Ok(())
                })
                .unwrap();
        }
        (found, elements.finish().map(|envelope| String::from_utf8(envelope).unwrap()))
    }

    fn check(split: Split, text: &str, elements: &[&str], envelope: &str) {
        for chunk in 1..=text.len() {
            let (found, left) = cut(split, text, chunk);
            assert_eq!(found, elements, "in chunks of {chunk}");
            assert_eq!(left.unwrap(), envelope, "in chunks of {chunk}");
        }
    }

    #[test]
    fn elements_are_found_wherever_the_chunks_end() {
        check(
            Split::ArrayAt(2, "result"),
            r#"{"status":"success","data":{"resultType":"matrix","result": [{"a":[1,"]"]} , {"b\\\"}":"\"{"}]},"warnings":["w"]}"#,
            &[r#"{"a":[1,"]"]}"#, r#"{"b\\\"}":"\"{"}"#],
            r#"{"status":"success","data":{"resultType":"matrix","result": []},"warnings":["w"]}"#,
        );
        // Without the array, an answer is all envelope.
        let text =
            r#"{"status":"error","errorType":"execution","error":"too many [samples]","x":{"result":{"y":[1]}}}"#;
        check(Split::ArrayAt(2, "result"), text, &[], text);
        // Only the array at its depth is long.
        check(
            Split::ArrayAt(1, "items"),
            r#"{"a":{"items":[{}]},"items":[{"items":[1]}]}"#,
            &[r#"{"items":[1]}"#],
            r#"{"a":{"items":[{}]},"items":[]}"#,
        );
        check(Split::Documents, "{\"a\":{}}\n{\"b\":[{}]}\n", &[r#"{"a":{}}"#, r#"{"b":[{}]}"#], "");
    }

    #[test]
    fn an_answer_that_was_cut_does_not_end() {
        let (found, left) = cut(Split::ArrayAt(2, "result"), r#"{"data":{"result":[{"a":1},{"b":"#, 7);
        assert_eq!(found, [r#"{"a":1}"#]);
        assert_eq!(left, Err(truncated()));
        // Between two elements, it is the envelope that does not.
        let (_, left) = cut(Split::ArrayAt(2, "result"), r#"{"data":{"result":[{"a":1},"#, 7);
        assert_eq!(left.unwrap(), r#"{"data":{"result":["#);
    }
}
