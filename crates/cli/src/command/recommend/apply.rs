//! Recommendations applied to the cluster: server-side, under a manager of our own, on the user's word. Everything is
//! tried without effect first; nothing is changed if any of that is refused. What was set before is written to a script
//! that puts it back. (To apply less by the same manager would not do: what the manager alone owns stays where another
//! owns the empty `resources` around it.)

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use headroom_admission::truncate::{count_of, on_one_line};
use headroom_api_server::api_client::{ApiClient, ApiError, ApiResult, ApplyOptions};
use headroom_api_server::shell::ShellCommand;
use headroom_api_server::{ApiPath, clock};
use headroom_output::{Exit, Page, WholeFile, ask, complain};
use headroom_recommend::report::Recommendations;
use headroom_recommend::write::patches::{self, Patch, RecommendedChange};
use kube::Client;

use super::warn_of_left_out;
use crate::command::cluster_args::TargetArgs;

/// The field manager of what is applied.
const MANAGER: &str = "kubectl-headroom";
/// The API server itself gives up on a request after a minute.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Changing the cluster")]
pub struct Patching {
    /// Set the recommended requests and memory limits in the cluster, by server-side apply, after a dry run and a confirmation
    #[arg(long, conflicts_with_all = ["fail_on", "write"])]
    pub patch: bool,
    /// Do not ask
    #[arg(long, requires = "patch")]
    yes: bool,
    /// Take over fields from their managers, such as Helm or kubectl
    #[arg(long, requires = "patch")]
    force_conflicts: bool,
}

pub async fn run(
    args: &Patching,
    report: &Recommendations,
    client: Client,
    target: &TargetArgs,
) -> anyhow::Result<Exit> {
    let cluster = &target.cluster.described();
    let kubectl = kubectl(target);
    let (changes, left_out) = report.changes_of_cluster(&kubectl);
    warn_of_left_out(&left_out);
    report.beside_changes().iter().for_each(|line| complain!("note: {line}"));
    let exit_at_best = if report.leaves_out_blocked() { Exit::Refused } else { Exit::Ok };
    let patches: Vec<Patch> = changes.iter().flat_map(RecommendedChange::patches).collect();
    if patches.is_empty() {
        complain!("nothing to change: the workloads request what is recommended, or cannot be patched");
        return Ok(if left_out.is_empty() { Exit::Ok } else { Exit::Refused });
    }
    let api = ApiClient::new(client).with_timeout(REQUEST_TIMEOUT);
    let (mut rollback, mut refused) = (Vec::new(), 0);
    for patch in &patches {
        let before = api.get(&path_of(patch)).await;
        let before = before.map_err(|error| anyhow!("{patch}: {}", worded(&error)))?;
        rollback.push(patch.command(kubectl.clone(), &patch.put_back(&before)).to_string());
        if let Err(error) = args.apply(patch, &api, true).await {
            complain!("error: {patch}: {}", worded(&error));
            refused += 1;
        }
    }
    if refused > 0 {
        complain!("nothing was changed: {refused} of {} changes would be rejected", patches.len());
        return Ok(Exit::Refused);
    }
    if !args.yes && !is_wanted(patches.len(), cluster)? {
        complain!("nothing was changed");
        return Ok(exit_at_best);
    }
    // A name for each run: `headroom-rollback-20261125-143000.sh`, in UTC.
    let now = jiff::Timestamp::from_second(clock::now()).unwrap_or_default();
    let script = PathBuf::from(now.strftime("headroom-rollback-%Y%m%d-%H%M%S.sh").to_string());
    keep(&script, &rollback, cluster)?;
    complain!("wrote {0}: run `sh {0}` to restore the current values", script.display());
    for (done, patch) in patches.iter().enumerate() {
        if let Err(error) = args.apply(patch, &api, false).await {
            complain!("error: {patch}: {}", worded(&error));
            complain!("{done} of {} changes were made, the others were not", patches.len());
            return Ok(Exit::Refused);
        }
        complain!("patched {patch}");
    }
    Ok(exit_at_best)
}

fn path_of(Patch { kind, namespace, name, .. }: &Patch) -> ApiPath {
    ApiPath::of_version(&kind.api_version()).collection(Some(namespace), &kind.plural).at(name)
}

impl Patching {
    async fn apply(&self, patch: &Patch, api: &ApiClient, dry_run: bool) -> ApiResult<()> {
        let options = ApplyOptions { manager: MANAGER, force: self.force_conflicts, dry_run };
        let patched = match patch.is_json() {
            true => api.patch(&path_of(patch), &patch.body, options).await,
            false => api.apply(&path_of(patch), &patch.body, options).await,
        };
        patched.map(|_| ())
    }
}

/// All changes as a command line that applies them on the server, under the same manager.
pub fn as_command(target: &TargetArgs, report: &Recommendations) -> anyhow::Result<String> {
    let kubectl = kubectl(target);
    let (changes, left_out) = report.changes_of_cluster(&kubectl);
    let merged = patches::kustomize(&changes)?.to_string();
    let mut commands = patches::commented(&[left_out, report.beside_changes()].concat(), Page::new()).to_string();
    if !merged.is_empty() {
        let manager = format!("--field-manager={MANAGER}");
        commands.push_str(&format!("{kubectl} apply --server-side {manager} -f - <<'PATCHES'\n{merged}PATCHES\n"));
    }
    for patch in changes.iter().flat_map(|change| change.patches()).filter(Patch::is_json) {
        commands.push_str(&format!("{}\n", patch.command(kubectl.clone(), &patch.body)));
    }
    Ok(commands)
}

fn worded(error: &ApiError) -> String {
    match error {
        ApiError::Conflict { message } => format!(
            "{}; --force-conflicts takes the fields over until their manager applies again, --write changes its manifests",
            message.split_whitespace().collect::<Vec<_>>().join(" ")
        ),
        error => error.to_string(),
    }
}

fn is_wanted(changes: usize, cluster: &str) -> anyhow::Result<bool> {
    let objects = format!("{} in {cluster}", count_of(changes as u64, "object"));
    let Some(answer) = ask(&format!("Change {objects}? Pods of changed workloads will be replaced. [y/N]"))? else {
        complain!("{objects} would be changed, and the API server would accept that: pass --yes to apply");
        return Ok(false);
    };
    Ok(matches!(answer.as_str(), "y" | "Y" | "yes"))
}

/// Never over another file, which may be what an earlier run has to be put back with.
fn keep(file: &Path, commands: &[String], cluster: &str) -> anyhow::Result<()> {
    let cannot = || format!("cannot write `{}`", file.display());
    let text = format!(
        "#!/bin/sh\n# Puts back the requests and limits that were set before `kubectl headroom recommend --patch`\n# in {}.\nset -e\n{}\n",
        on_one_line(cluster, 200),
        commands.join("\n")
    );
    let mut script = WholeFile::create(file).with_context(cannot)?;
    script.write_all(text.as_bytes()).with_context(cannot)?;
    script.finish_new().with_context(cannot)
}

/// `kubectl` with the words that lead to the same cluster.
fn kubectl(target: &TargetArgs) -> ShellCommand {
    ShellCommand::of("kubectl").ending(&target.cluster.as_words())
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_api_server::kubeconfig::Chosen;

    #[test]
    fn the_commands_lead_to_the_same_cluster() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let config = "current-context: prod\ncontexts: [{name: prod, context: {cluster: c, user: u}}]\nusers: []\n\
            clusters: [{name: c, cluster: {server: 'https://eve:secret@10.0.0.1:6443'}}]\n";
        headroom_output::write_file(&path, config).unwrap();
        let cluster =
            Chosen { kubeconfig: Some(path.to_path_buf()), user: Some("eve".to_owned()), ..Chosen::default() };
        assert_eq!(cluster.described(), "context prod (https://10.0.0.1:6443)");
        let target = TargetArgs { cluster, ..TargetArgs::default() };
        let expected = format!("kubectl --context prod --kubeconfig {} --as eve", path.display());
        assert_eq!(kubectl(&target).to_string(), expected);
    }
}
