//! Built-in requests of well-known images, for images without any history.
//!
//! The amounts come from widely used charts and manuals, so they suit a small, generic installation; `well_known.txt`
//! has the source of each. An image is in the table by its exact repository: the row of `nginx` is not used for
//! `nginx-exporter`, nor for `nginx` in another registry.

use crate::amount::Quantity;

const TABLE: &str = include_str!("well_known.txt");

/// Where the lines begin: a search then compares a few words, and reads no line.
const STARTS: [usize; count_lines(TABLE.as_bytes())] = starts();

const fn count_lines(mut text: &[u8]) -> usize {
    let mut lines = 0;
    while let [byte, rest @ ..] = text {
        lines += (*byte == b'\n') as usize;
        text = rest;
    }
    lines
}

#[expect(clippy::indexing_slicing, reason = "the compiler evaluates it")]
const fn starts<const LINES: usize>() -> [usize; LINES] {
    let (mut starts, mut line, mut place) = ([0; LINES], 1, 0);
    while line < LINES {
        if TABLE.as_bytes()[place] == b'\n' {
            starts[line] = place + 1;
            line += 1;
        }
        place += 1;
    }
    starts
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WellKnown {
    pub cpu: Quantity,
    pub memory: Quantity,
    /// The source of the amounts, for people.
    pub source: &'static str,
}

/// The requests for a repository in full form, such as `docker.io/library/nginx`.
pub fn requests(repository: &str) -> Option<WellKnown> {
    let line = |start: &usize| TABLE.get(*start..).unwrap_or_default();
    let order = |start: &usize| {
        let (word, rest) = line(start).as_bytes().split_at_checked(repository.len()).unwrap_or_default();
        // A space comes before all that is in a name.
        word.cmp(repository.as_bytes()).then(rest.first().cmp(&Some(&b' ')))
    };
    let found = STARTS.get(STARTS.binary_search_by(order).ok()?)?;
    read_line(line(found).lines().next()?)
}

fn read_line(line: &'static str) -> Option<WellKnown> {
    let mut words = line.splitn(4, ' ').skip(1);
    let mut amount = || words.next()?.parse().ok();
    let (cpu, memory) = (amount()?, amount()?);
    Some(WellKnown { cpu, memory, source: words.next()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::ImageName;

    /// The search finds every row only if they are sorted.
    #[test]
    fn every_row_is_found_by_its_full_repository_and_has_plausible_amounts() {
        let bounds = |text: &str| text.parse::<Quantity>().unwrap();
        let rows: Vec<&str> = TABLE.lines().filter(|line| !line.starts_with('#')).collect();
        for row in &rows {
            let repository = row.split(' ').next().unwrap();
            assert_eq!(ImageName::parse(repository).unwrap().repository(), repository);
            let found = requests(repository).unwrap_or_else(|| panic!("{repository} is not found"));
            assert!(found.cpu >= bounds("10m") && found.cpu <= bounds("1"), "{row}");
            assert!(found.memory >= bounds("20Mi") && found.memory <= bounds("2Gi"), "{row}");
            assert!(!found.source.is_empty(), "{row}");
            assert_eq!(found, read_line(row).unwrap());
        }
        assert!(rows.len() >= 34);
    }

    #[test]
    fn the_images_that_the_first_design_names_are_known() {
        for image in ["nginx", "mysql", "postgres", "redis"] {
            assert!(requests(ImageName::parse(image).unwrap().repository()).is_some(), "{image}");
        }
    }

    #[test]
    fn only_the_exact_repository_is_known() {
        for repository in
            ["", "#", "docker.io/library/ngin", "docker.io/library/nginx2", "docker.io/team/nginx", "zzz", "nginx"]
        {
            assert_eq!(requests(repository), None, "{repository}");
        }
    }
}
