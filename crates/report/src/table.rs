//! Columns of text, aligned as kubectl aligns them: three spaces between, nothing after the last.

use std::fmt;

const BETWEEN: usize = 3;

/// Rows under a header.
#[derive(Debug, Clone, Default)]
pub struct Table {
    rows: Vec<Vec<Cell>>,
}

/// A text, and how it is painted, which takes no room.
#[derive(Debug, Clone)]
struct Cell {
    text: String,
    painted: String,
}

impl Table {
    pub fn new(header: &[&str]) -> Self {
        let mut table = Self::default();
        table.row(header.iter().map(ToString::to_string));
        table
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.painted_row(cells.into_iter().map(|text| (text.clone(), text)));
    }

    /// Each cell as its bare text and as it is printed.
    pub fn painted_row(&mut self, cells: impl IntoIterator<Item = (String, String)>) {
        self.rows.push(cells.into_iter().map(|(text, painted)| Cell { text, painted }).collect());
    }

    /// Whether there is nothing but the header.
    pub fn is_empty(&self) -> bool {
        self.rows.len() <= 1
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

impl Table {
    /// The header and the rows, a line each.
    pub fn lines(&self) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width_of =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| width(&cell.text)).max();
        let widths: Vec<usize> = (0..columns).map(|column| width_of(column).unwrap_or(0)).collect();
        self.rows.iter().map(|row| line(row, &widths)).collect()
    }
}

fn line(row: &[Cell], widths: &[usize]) -> String {
    let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or(0);
    let mut line = String::new();
    for (column, (cell, widest)) in row.iter().zip(widths).enumerate().take(last + 1) {
        line.push_str(&cell.painted);
        if column < last {
            line.extend(std::iter::repeat_n(' ', widest - width(&cell.text) + BETWEEN));
        }
    }
    line
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Paint;
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_text() {
        let mut table = Table::new(&["NAME", "USED", "HARD"]);
        table.row(["requests.cpu".to_owned(), "1".to_owned(), "2".to_owned()]);
        table.row(["pods".to_owned(), "…".to_owned(), String::new()]);
        assert_eq!(table.to_string(), "NAME           USED   HARD\nrequests.cpu   1      2\npods           …\n");
        assert!(!table.is_empty());
        let text = Paint::OFF.bad("x");
        assert_eq!(text, "x");
    }
}
