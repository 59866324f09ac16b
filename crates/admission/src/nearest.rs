//! Finds the known name that a mistyped one was meant to be.

/// The known name closest to a mistyped one, if any is close.
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let closest = known.into_iter().map(|known| (distance(name, known), known)).min()?;
    (closest.0 <= 1 + name.len() / 3).then_some(closest.1)
}

/// Edit distance, ignoring case.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_ascii_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, in_a) in a.to_ascii_lowercase().chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (in_b, above) in b.iter().zip(row.iter_mut().skip(1)) {
            let cost = (diagonal + usize::from(in_a != *in_b)).min(left + 1).min(*above + 1);
            diagonal = std::mem::replace(above, cost);
            left = cost;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}
