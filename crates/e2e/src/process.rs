//! A server program that ends with its test, however the test ends.
//!
//! The test starts a shell, which starts the program and reads a pipe from the test. When the pipe closes, because the
//! [`Process`] was dropped or the whole test was killed, the shell kills the program. Nothing outlives a test.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// `$@` is the program. A shell gives background commands no standard input, so the pipe is passed as descriptor 3.
const KEEPER: &str = r#"exec 3<&0; "$@" 3<&- & program=$!
{ read -r _ <&3; kill -KILL $program; } 2>/dev/null & keeper=$!
exec 3<&-; wait $program; status=$?; kill $keeper 2>/dev/null; exit $status"#;

pub struct Process {
    shell: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program`; what it prints is appended to `<logs>/<name>.log`.
    pub fn start(program: &Path, arguments: &[String], logs: &Path) -> io::Result<Self> {
        let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let log = logs.join(format!("{name}.log"));
        let output = File::options().create(true).append(true).open(&log)?;
        let shell = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        Ok(Self { shell, log })
    }

    /// Asks the program to stop.
    pub fn terminate(&self) -> io::Result<()> {
        for child in self.children()?.split_whitespace() {
            Command::new("kill").arg(child).status()?;
        }
        Ok(())
    }

    /// The exit status, if the program has ended.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.shell.try_wait()
    }

    /// The last lines that the program printed, for error messages.
    pub fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_else(|error| format!("(no log: {error})"));
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.get(lines.len().saturating_sub(25)..).unwrap_or(&lines);
        format!("--- last lines of {} ---\n{}", self.log.display(), last.join("\n"))
    }

    /// The processor time that the threads of the program have taken.
    pub fn cpu(&self) -> io::Result<Duration> {
        let mut nanoseconds = 0;
        for child in self.children()?.split_whitespace() {
            for thread in fs::read_dir(format!("/proc/{child}/task"))? {
                // A thread may end meanwhile.
                let times = fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
                let on_processor = times.split_whitespace().next().and_then(|time| time.parse::<u64>().ok());
                nanoseconds += on_processor.unwrap_or_default();
            }
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    fn children(&self) -> io::Result<String> {
        let shell = self.shell.id();
        fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // Waiting can only fail if the process is gone.
        drop(self.shell.wait());
    }
}
