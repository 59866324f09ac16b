//! Cuts a JSON answer into pieces as its bytes arrive, so that an answer of any size is read in the memory of its
//! largest piece.
//!
//! A piece is an element of the one long array in the answer, or a whole document where several follow each other.
//! This only finds where pieces start and end; what is in them, and whether it is valid, is for their reader. What is
//! left around the pieces (the envelope) is kept and handed back at the end: an answer that was cut off in the middle
//! leaves an envelope, or a piece, that does not end.

use super::SourceError;

/// A piece longer than this is refused: no honest answer has one, and memory must stay bounded.
const LONGEST_PIECE: usize = 32 << 20;

/// What is long in the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The first array under this key, in an object this deep: `{"items":[…]}` is at depth 1,
    /// `{"data":{"result":[…]}}` at depth 2.
    ArrayAt(usize, &'static str),
    /// JSON documents one after another.
    Documents,
}

/// The cutter; see [`Pieces::feed`].
#[derive(Debug)]
pub struct Pieces {
    shape: Shape,
    /// How many objects and arrays are open.
    depth: usize,
    /// At which depth a piece starts; `None` while its array has not been met.
    level: Option<usize>,
    in_string: bool,
    escaped: bool,
    in_piece: bool,
    /// The start of a piece whose end has not arrived.
    started: Vec<u8>,
    envelope: Vec<u8>,
}

impl Pieces {
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            depth: 0,
            level: (shape == Shape::Documents).then_some(0),
            in_string: false,
            escaped: false,
            in_piece: false,
            started: Vec::new(),
            envelope: Vec::new(),
        }
    }

    /// Takes the next bytes of the answer and hands over each piece that they complete.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        each: &mut dyn FnMut(&[u8]) -> Result<(), SourceError>,
    ) -> Result<(), SourceError> {
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
                            self.in_piece = true;
                            from = at;
                        }
                        if self.opens_the_array(byte) {
                            self.level = Some(self.depth + 1);
                        }
                        self.depth += 1;
                    }
                    b'}' | b']' => {
                        self.depth = self.depth.saturating_sub(1);
                        if self.in_piece && Some(self.depth) == self.level {
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
            let between_pieces = Some(self.depth) == self.level && !self.in_piece;
            if !self.in_piece && !(between_pieces && (byte == b',' || byte.is_ascii_whitespace())) {
                self.envelope.push(byte);
            }
        }
        if self.in_piece {
            self.started.extend_from_slice(bytes.get(from..).unwrap_or_default());
        }
        let held = self.started.len().max(self.envelope.len());
        if held > LONGEST_PIECE {
            return Err(SourceError::Permanent(format!(
                "a single part of the response is longer than {} MiB: this is not a metrics store's response",
                LONGEST_PIECE >> 20
            )));
        }
        Ok(())
    }

    /// What was around the pieces; an error if the answer ended inside one.
    pub fn finish(self) -> Result<Vec<u8>, SourceError> {
        if self.in_piece {
            return Err(truncated());
        }
        Ok(self.envelope)
    }

    fn complete(
        &mut self,
        last: &[u8],
        each: &mut dyn FnMut(&[u8]) -> Result<(), SourceError>,
    ) -> Result<(), SourceError> {
        self.in_piece = false;
        if self.started.is_empty() {
            return each(last);
        }
        self.started.extend_from_slice(last);
        let done = each(&self.started);
        self.started.clear();
        done
    }

    /// Whether the bracket after the envelope so far opens the long array.
    fn opens_the_array(&self, bracket: u8) -> bool {
        let Shape::ArrayAt(depth, key) = self.shape else { return false };
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

/// The answer ended too early: the connection broke, so asking again may help.
pub fn truncated() -> SourceError {
    SourceError::Temporary("the answer ends in the middle: the connection or the server broke off".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(shape: Shape, text: &str, chunk: usize) -> (Vec<String>, Result<String, SourceError>) {
        let mut found = Vec::new();
        let mut pieces = Pieces::new(shape);
        for bytes in text.as_bytes().chunks(chunk) {
            pieces
                .feed(bytes, &mut |piece| {
                    found.push(String::from_utf8(piece.to_vec()).unwrap());
                    Ok(())
                })
                .unwrap();
        }
        (found, pieces.finish().map(|envelope| String::from_utf8(envelope).unwrap()))
    }

    fn check(shape: Shape, text: &str, pieces: &[&str], envelope: &str) {
        for chunk in 1..=text.len() {
            let (found, left) = cut(shape, text, chunk);
            assert_eq!(found, pieces, "in chunks of {chunk}");
            assert_eq!(left.unwrap(), envelope, "in chunks of {chunk}");
        }
    }

    #[test]
    fn elements_are_found_wherever_the_chunks_end() {
        check(
            Shape::ArrayAt(2, "result"),
            r#"{"status":"success","data":{"resultType":"matrix","result": [{"a":[1,"]"]} , {"b\\\"}":"\"{"}]},"warnings":["w"]}"#,
            &[r#"{"a":[1,"]"]}"#, r#"{"b\\\"}":"\"{"}"#],
            r#"{"status":"success","data":{"resultType":"matrix","result": []},"warnings":["w"]}"#,
        );
    }

    #[test]
    fn an_answer_without_the_array_is_all_envelope() {
        let text =
            r#"{"status":"error","errorType":"execution","error":"too many [samples]","x":{"result":{"y":[1]}}}"#;
        check(Shape::ArrayAt(2, "result"), text, &[], text);
    }

    #[test]
    fn only_the_array_at_its_depth_is_long() {
        check(
            Shape::ArrayAt(1, "items"),
            r#"{"a":{"items":[{}]},"items":[{"items":[1]}]}"#,
            &[r#"{"items":[1]}"#],
            r#"{"a":{"items":[{}]},"items":[]}"#,
        );
    }

    #[test]
    fn documents_follow_each_other() {
        check(Shape::Documents, "{\"a\":{}}\n{\"b\":[{}]}\n", &[r#"{"a":{}}"#, r#"{"b":[{}]}"#], "");
    }

    #[test]
    fn an_answer_cut_inside_an_element_is_an_error() {
        let (found, left) = cut(Shape::ArrayAt(2, "result"), r#"{"data":{"result":[{"a":1},{"b":"#, 7);
        assert_eq!(found, [r#"{"a":1}"#]);
        assert_eq!(left, Err(truncated()));
    }

    #[test]
    fn an_answer_cut_between_elements_leaves_an_envelope_without_end() {
        let (_, left) = cut(Shape::ArrayAt(2, "result"), r#"{"data":{"result":[{"a":1},"#, 7);
        assert_eq!(left.unwrap(), r#"{"data":{"result":["#);
    }
}
