//! The sizes of the benchmarks, and what a run of a program costs.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use headroom_fixtures::process::peak_kib;

use crate::Result;

pub const MIB: f64 = 1_048_576.0;

/// A program of this workspace, which has to be built beside this one.
pub fn program(name: &str) -> Command {
    let own = std::env::current_exe().unwrap_or_default();
    let built = own.ancestors().map(|folder| folder.join(name)).find(|path| path.is_file());
    Command::new(built.unwrap_or_else(|| name.into()))
}

pub fn setting(name: &str, default: u64) -> Result<u64> {
    match std::env::var(name) {
        Ok(text) => Ok(text.parse()?),
        Err(_) => Ok(default),
    }
}

pub struct Cost {
    pub time: Duration,
    /// Its own processor time.
    pub processor_seconds: f64,
    pub peak_kib: u64,
}

/// Runs a program to its end, which has to be a good one.
pub fn run(command: &mut Command) -> Result<Cost> {
    let begun = Instant::now();
    let mut child = command.spawn()?;
    let (mut processor_seconds, mut peak) = (0.0_f64, 0);
    loop {
        // The kernel keeps both; they only have to be read before the process is gone.
        peak = peak.max(peak_kib(child.id()).unwrap_or_default());
        processor_seconds = processor_seconds.max(processor_seconds_of(child.id()));
        match child.try_wait()? {
            Some(status) if status.success() => {
                return Ok(Cost { time: begun.elapsed(), processor_seconds, peak_kib: peak });
            }
            Some(status) => return Err(format!("the program ended with {status}").into()),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// User and system time of a process, counted by Linux in hundredths of a second.
pub fn processor_seconds_of(process: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}
