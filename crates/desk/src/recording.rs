//! A decision as files that anybody can replay without the cluster: what the policy read as a session file of kwctl, and
//! what must stay out of such files.

pub mod redact;
pub mod session;
