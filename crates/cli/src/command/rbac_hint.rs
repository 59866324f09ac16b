//! Advice on the permissions that a forbidden read needs.

use headroom_objects::cluster_reader::ReadError;

/// Words an error; if the API server forbids the read, with the role to bind.
pub fn advised(error: ReadError, all_namespaces: bool) -> String {
    let ReadError::Forbidden { resource, .. } = &error else { return error.to_string() };
    let advice = match all_namespaces {
        _ if resource == "usageprofiles" => {
            "usage history is in the collector's namespace: bind this account to the Role headroom-pool-reader there"
        }
        _ if resource == "tenantquotas" => {
            "bind this account to the ClusterRole headroom-tenants by a ClusterRoleBinding"
        }
        _ if resource == "configmaps" => "the ClusterRole headroom-config-reader allows it, where the chart creates it",
        true => {
            "-A needs permission to list in all namespaces: bind this account to the ClusterRole headroom-reader by a \
             ClusterRoleBinding, or look at one namespace with -n"
        }
        false => "bind this account to the ClusterRole headroom-reader",
    };
    format!("{error}; {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_to_read_config_maps_names_the_role_of_their_own() {
        let refused = ReadError::Forbidden { resource: "configmaps".to_owned(), problem: "forbidden".to_owned() };
        assert!(advised(refused, true).contains("; the ClusterRole headroom-config-reader allows it"));
    }
}
