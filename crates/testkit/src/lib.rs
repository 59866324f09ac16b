//! Test support: scenarios, and a real waPC host for the policy.
