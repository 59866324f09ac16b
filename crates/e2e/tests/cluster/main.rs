//! Headroom at a real Kubernetes API server. Each test needs a control plane and takes minutes, so all are ignored by
//! default. Run them with `make e2e-cluster`.

#![expect(clippy::disallowed_methods, reason = "tests write the files that programs read")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic on unexpected data")]

/// Ends a test that needs a program of the control plane which is not there.
#[macro_export]
macro_rules! skip_without {
    ($program:literal) => {
        if headroom_e2e::control_plane::lacks($program).unwrap() {
            return;
        }
    };
}

// Helpers.
mod audit_log;
mod chart;
mod chart_policies;
mod guarded_namespace;
mod objects;
mod quota_watch;

// Tests, by class and subject.
mod admit_beside_in_tree_plugins;
mod admit_chart_policies;
mod admit_in_kubewarden;
mod admit_in_outages;
mod admit_policy_alone;
mod command_check_apply;
mod command_check_folders;
mod command_recommend;
mod controller_collector;
mod differential;
mod ledger;
mod policy_server_bench;
mod workload_forecast;
