//! What to do when the API server forbids a read.

/// Adds to the problem which permissions are missing, if it is about permissions.
pub fn advised(problem: String, all_namespaces: bool) -> String {
    if !problem.contains("forbidden") && !problem.contains("cannot list resource") {
        return problem;
    }
    let advice = match all_namespaces {
        _ if problem.contains("usageprofiles") => {
            "usage history is in the collector's namespace: bind this account to the Role headroom-pool-reader there"
        }
        true => {
            "-A needs permission to list in all namespaces: bind this account to the ClusterRole headroom-reader by a \
             ClusterRoleBinding, or look at one namespace with -n"
        }
        false => "bind this account to the ClusterRole headroom-reader",
    };
    format!("{problem}; {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_role_that_is_missing() {
        let refused = || "cannot read pods in namespace shop: pods is forbidden: User \"eve\" cannot list".to_owned();
        assert!(advised(refused(), false).ends_with("; bind this account to the ClusterRole headroom-reader"));
        assert!(advised(refused(), true).contains("; -A needs permission to list in all namespaces: "));
        let history = "usageprofiles.headroom.dev is forbidden: User \"eve\" cannot list".to_owned();
        assert!(advised(history, false).ends_with(
            "; usage history is in the collector's namespace: bind this account to the Role headroom-pool-reader there"
        ));
        assert_eq!(advised("no answer".to_owned(), true), "no answer");
    }
}
