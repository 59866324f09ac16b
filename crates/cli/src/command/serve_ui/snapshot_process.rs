//! Each snapshot is taken by a process of its own, with the memory that one may take.
//!
//! How much memory a snapshot needs depends on what tenants store, and is not known before. A process that exceeds its limit
//! ends alone, and the page serves its other visitors. It has the arguments and the environment of this one, and reads the
//! user's token from standard input, which nobody else can see.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use anyhow::Context;
use headroom_core::amount::Quantity;
use headroom_kube::secret::Secret;
use headroom_report::complain;
use hyper::body::Bytes;
use memmap2::MmapMut;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use crate::command::cluster_args::Target;
use crate::command::ui;
use crate::command::ui::server::{Asked, Take, Taken, UNREAD};

/// Limits of one snapshot, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub memory: usize,
    /// As it is sent to the client.
    pub sent: usize,
}

/// The input of the process.
#[derive(Serialize, Deserialize)]
struct Order {
    namespace: Option<String>,
    token: Option<String>,
}

/// The first line of the answer, before the snapshot: what could not be read for it, or why there is none.
type Outcome = Result<Vec<String>, String>;

/// Answers the order of the program that started this one.
pub fn answer(target: &Target, memory: usize) -> anyhow::Result<()> {
    limit_memory(memory)?;
    let mut order = String::new();
    io::stdin().read_to_string(&mut order).context("cannot read the order")?;
    let Order { namespace, token } = serde_json::from_str(&order).context("cannot read the order")?;
    let taken = ui::taken(target, None, Asked { namespace, token: token.map(Secret::from) });
    let (outcome, compressed): (Outcome, Bytes) = match taken {
        Ok(Taken { compressed, missed }) => (Ok(missed), compressed),
        Err(problem) => (Err(problem), Bytes::new()),
    };
    #[expect(clippy::disallowed_methods, reason = "read by the program that started this one")]
    let mut output = io::stdout().lock();
    writeln!(output, "{}", serde_json::to_string(&outcome)?)?;
    output.write_all(&compressed)?;
    Ok(output.flush()?)
}

/// From now on, an allocation beyond this ends the process. Only Linux counts all of them.
#[cfg(unix)]
fn limit_memory(bytes: usize) -> anyhow::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = |bytes: usize| Rlimit { current: Some(bytes as u64), maximum: Some(bytes as u64) };
    // A dump of this process would have the token.
    setrlimit(Resource::Core, limit(0)).context("cannot switch core dumps off")?;
    setrlimit(Resource::Data, limit(bytes)).context("cannot limit the memory of a snapshot")
}

#[cfg(not(unix))]
fn limit_memory(_: usize) -> anyhow::Result<()> {
    Ok(())
}

/// How a snapshot is taken by another process of this program.
pub fn take(bounds: Bounds) -> anyhow::Result<Take> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    arguments.extend(["--take-one".into(), bounds.memory.to_string().into()]);
    let process = Arc::new(Process { program, arguments, bounds });
    Ok(Box::new(move |asked, gone| {
        let process = Arc::clone(&process);
        Box::pin(async move {
            let mut child = process.start()?;
            let taken = tokio::select! {
                taken = process.ask(&mut child, asked) => taken,
                () = gone.cancelled() => Err("nobody waits for it".to_owned()),
            };
            // Its memory is free when it has ended. OK if it has already.
            let _ = child.kill().await;
            taken
        })
    }))
}

struct Process {
    program: PathBuf,
    arguments: Vec<OsString>,
    bounds: Bounds,
}

impl Process {
    fn start(&self) -> Result<Child, String> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        // A backtrace of a failed allocation takes long, and the turn with it.
        command.env("RUST_BACKTRACE", "0");
        command.spawn().map_err(|error| {
            complain!("error: cannot start a process for a snapshot: {error}");
            UNREAD.to_owned()
        })
    }

    async fn ask(&self, child: &mut Child, Asked { namespace, token }: Asked) -> Result<Taken, String> {
        let order = Order { namespace, token: token.map(|token| token.reveal().to_owned()) };
        let answer = self.exchange(child, &order).await;
        let ended = child.wait().await;
        match (answer, ended) {
            (Ok(answer), _) if answer.len() > self.bounds.sent => Err(self.too_large()),
            (Ok(answer), Ok(status)) if status.success() => self.read(answer),
            (_, Ok(status)) => {
                complain!("warning: the process that takes a snapshot has ended: {status}");
                Err(if is_out_of_memory(status) { self.too_much_memory() } else { UNREAD.to_owned() })
            }
            (_, Err(error)) => {
                complain!("warning: cannot wait for the process that takes a snapshot: {error}");
                Err(UNREAD.to_owned())
            }
        }
    }

    /// Sends the order, and reads the answer up to its limit. The system has the memory of an answer back as soon as it is dropped:
    /// an allocator may keep as much again of what threads have freed.
    async fn exchange(&self, child: &mut Child, order: &Order) -> io::Result<Bytes> {
        let (Some(mut input), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        input.write_all(&serde_json::to_vec(order)?).await?;
        drop(input);
        // One more than may be sent, to see that it is too much; closing the pipe ends the process.
        let mut answer = MmapMut::map_anon(self.bounds.sent + 1)?;
        let mut length = 0;
        while let Some(free @ [_, ..]) = answer.get_mut(length..) {
            match output.read(free).await? {
                0 => break,
                read => length += read,
            }
        }
        Ok(Bytes::from_owner(answer).slice(..length))
    }

    fn read(&self, mut answer: Bytes) -> Result<Taken, String> {
        let line = answer.iter().position(|byte| *byte == b'\n').ok_or(UNREAD)?;
        let outcome: Outcome = serde_json::from_slice(&answer.split_to(line + 1)).map_err(|_| UNREAD)?;
        Ok(Taken { compressed: answer, missed: outcome? })
    }

    fn too_large(&self) -> String {
        format!("the snapshot has more than {}; show one namespace", Quantity::from_bytes(self.bounds.sent as u64))
    }

    fn too_much_memory(&self) -> String {
        let memory = Quantity::from_bytes(self.bounds.memory as u64);
        format!(
            "the snapshot takes more than the {memory} of memory that the page has for one; show one namespace, or give the \
             page more memory (page.resources.limits.memory of the Helm chart)"
        )
    }
}

/// A failed allocation aborts the process. The kernel kills it when the container has no more memory.
#[cfg(unix)]
fn is_out_of_memory(status: ExitStatus) -> bool {
    use rustix::process::Signal;
    use std::os::unix::process::ExitStatusExt as _;
    status.signal().is_some_and(|signal| [Signal::ABORT.as_raw(), Signal::KILL.as_raw()].contains(&signal))
}

#[cfg(not(unix))]
fn is_out_of_memory(_: ExitStatus) -> bool {
    false
}
