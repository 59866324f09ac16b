//! Columns of text, each as wide as its widest cell plus two spaces.
//!
//! A column spans adjacent lines that have it; a line without it ends the column. The last cell of a line is not
//! padded and does not widen its column.

use std::fmt;

use headroom_output::clean;

#[derive(Debug, Default)]
pub(super) struct Table {
    lines: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn row<C: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.lines.push(cells.into_iter().map(|cell| clean(cell.as_ref()).into_owned()).collect());
    }

    /// The width of a column at a line: of all adjacent lines in which it is not the last column.
    fn width(&self, line: usize, column: usize) -> usize {
        let width_at = |cells: &Vec<String>| {
            let is_padded = cells.len() > column + 1;
            cells.get(column).filter(|_| is_padded).map(|cell| cell.chars().count())
        };
        let (before, after) = self.lines.split_at(line);
        let above = before.iter().rev().map_while(width_at);
        let below = after.iter().map_while(width_at);
        above.chain(below).max().unwrap_or(0) + 2
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (line, cells) in self.lines.iter().enumerate() {
            for (column, cell) in cells.iter().enumerate() {
                if column + 1 == cells.len() {
                    writeln!(f, "{cell}")?;
                } else {
                    write!(f, "{cell:<width$}", width = self.width(line, column))?;
                }
            }
        }
        Ok(())
    }
}
