//! Columns of text as kubectl aligns them: three spaces between, nothing after the last. A table that is wider than the
//! terminal leaves out the columns that it can do without, and folds long cells.
//!
//! A crate such as comfy-table or tabled would draw borders and fold cells, but leave out no columns.

use headroom_admission::truncate::on_one_line;

use super::clean::visible;
use super::color::Paint;
use super::width::{folded, width, wrapped};

const BETWEEN: usize = 3;
/// A column is not folded to less than this.
const NARROWEST: usize = 14;
/// The most characters of a cell. All rows are as wide as the widest one, and API servers accept images of a megabyte.
const LONGEST_CELL: usize = 1_000;

#[derive(Debug, Clone, Default)]
pub struct Table {
    rows: Vec<TableRow>,
    has_header: bool,
    /// Columns of numbers, by place.
    right: Vec<usize>,
    /// Columns that are left out where there is no room, the first first, by place.
    spare: Vec<usize>,
    /// Columns of text that may be folded, by place; the last one unless named.
    prose: Vec<usize>,
}

#[derive(Debug, Clone, Default)]
struct TableRow {
    cells: Vec<String>,
    /// Prose below it.
    details: Vec<String>,
}

impl Table {
    pub fn new(header: &[&str]) -> Self {
        let mut table = Self { has_header: true, ..Self::default() };
        table.row(header.iter().map(ToString::to_string));
        table
    }

    pub fn right(mut self, names: &[&str]) -> Self {
        self.right = self.places(names);
        self
    }

    /// Names the columns that are left out first, in order, where there is no room.
    pub fn spare(mut self, names: &[&str]) -> Self {
        self.spare = self.places(names);
        self
    }

    /// Names the columns of long text, which are folded where there is no room: the last one unless named.
    pub fn prose(mut self, names: &[&str]) -> Self {
        self.prose = self.places(names);
        self
    }

    fn places(&self, names: &[&str]) -> Vec<usize> {
        let header = || self.rows.first().into_iter().flat_map(|row| &row.cells).enumerate();
        names.iter().flat_map(|name| header().filter(move |(_, have)| have == name).map(|(place, _)| place)).collect()
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells = cells.into_iter().map(|cell| on_one_line(&visible(&cell), LONGEST_CELL)).collect();
        self.rows.push(TableRow { cells, details: Vec::new() });
    }

    /// Adds a line below the last row.
    pub fn detail(&mut self, text: &str) {
        if let Some(row) = self.rows.last_mut() {
            row.details.push(format!("  {}", visible(text)));
        }
    }

    /// Returns true if there is nothing but the header.
    pub fn is_empty(&self) -> bool {
        self.rows.len() <= usize::from(self.has_header)
    }

    /// The header and the rows, at a width or at any.
    pub fn lines(&self, most: Option<usize>) -> Vec<String> {
        let count = self.rows.iter().map(|row| row.cells.len()).max().unwrap_or(0);
        let widest =
            |place: usize| self.rows.iter().filter_map(|row| row.cells.get(place)).map(|cell| width(cell)).max();
        let mut columns: Vec<(usize, usize)> = (0..count).map(|place| (place, widest(place).unwrap_or(0))).collect();
        let total = |columns: &[(usize, usize)]| {
            columns.iter().map(|(_, width)| width + BETWEEN).sum::<usize>().saturating_sub(BETWEEN)
        };
        if let Some(most) = most {
            let mut spare = self.spare.iter();
            while total(&columns) > most
                && let Some(dropped) = spare.next()
            {
                columns.retain(|(place, _)| place != dropped);
            }
            self.narrow(&mut columns, most, total);
        }
        let mut lines = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            let is_header = number == 0 && self.has_header;
            let of_row = self.row_of_lines(&row.cells, &columns).into_iter();
            lines.extend(of_row.map(|line| if is_header { Paint::ON.bold(&line) } else { line }));
            for detail in &row.details {
                lines.extend(most.map_or_else(|| vec![detail.clone()], |most| wrapped(detail, most)));
            }
        }
        lines
    }

    /// Makes the widest columns of long text narrower, until all fit.
    fn narrow(&self, columns: &mut [(usize, usize)], most: usize, total: impl Fn(&[(usize, usize)]) -> usize) {
        let last = columns.last().map(|(place, _)| *place);
        let is_prose =
            |place: &usize| if self.prose.is_empty() { last == Some(*place) } else { self.prose.contains(place) };
        loop {
            let excess = total(columns).saturating_sub(most);
            let texts = columns.iter_mut().filter(|(place, width)| is_prose(place) && *width > NARROWEST);
            let Some((_, width)) = texts.max_by_key(|(_, width)| *width).filter(|_| excess > 0) else { return };
            // A little at a time, so that two wide columns share what there is.
            *width = width.saturating_sub(excess.min(4)).max(NARROWEST);
        }
    }

    fn row_of_lines(&self, row: &[String], columns: &[(usize, usize)]) -> Vec<String> {
        let empty = String::new();
        let cells = columns.iter().map(|(place, width)| folded(row.get(*place).unwrap_or(&empty), *width, *width));
        let cells: Vec<Vec<String>> = cells.collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(1);
        let line = |number: usize| {
            let mut line = String::new();
            for ((place, widest), cell) in columns.iter().zip(&cells) {
                let text = cell.get(number).map_or("", String::as_str);
                let padding = " ".repeat(widest.saturating_sub(width(text)));
                let (before, after) =
                    if self.right.contains(place) { (padding.as_str(), "") } else { ("", padding.as_str()) };
                line.extend([before, text, after, &" ".repeat(BETWEEN)]);
            }
            line.trim_end().to_owned()
        };
        (0..height).map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Page;
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["NAME", "USED", "HARD", "NOTE"]).right(&["USED"]).spare(&["HARD"]);
        table.row(["requests.cpu", "1", "2", "a note of many words"].map(str::to_owned));
        table.detail("a line below the row of requests");
        table.row(["pods", "…", "", "日本"].map(str::to_owned));
        table
    }

    fn lines(most: Option<usize>) -> Vec<String> {
        let mut page = Page::new();
        page.table(table());
        page.text(most, Paint::OFF).lines().map(str::to_owned).collect()
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_text() {
        assert_eq!(
            lines(None),
            [
                "NAME           USED   HARD   NOTE",
                "requests.cpu      1   2      a note of many words",
                "  a line below the row of requests",
                "pods              …          日本"
            ]
        );
        assert!(!table().is_empty() && Table::new(&["A"]).is_empty());
        let mut long = table();
        long.row(["x".repeat(300_000)]);
        assert!(long.lines(None).iter().all(|line| width(line) < 1_100));
    }

    #[test]
    fn columns_are_left_out_and_folded_where_there_is_no_room() {
        assert_eq!(
            lines(Some(36)),
            [
                "NAME           USED   NOTE",
                "requests.cpu      1   a note of many",
                "                      words",
                "  a line below the row of requests",
                "pods              …   日本"
            ]
        );
    }
}
