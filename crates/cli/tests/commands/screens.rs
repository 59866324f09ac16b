//! Screens of the commands at 80, 120 and 200 columns: nothing is wider than the terminal.

use crate::describe::program::program;
use crate::support::{said, snapshot};

#[test]
fn every_command_fits_the_terminal() {
    const WORLD: &str = "-n shop --cluster-dir world --cluster-dir profiles --settings settings.yaml";
    for (name, command) in [
        ("check", "check -f new.yaml"),
        ("explain", "explain -f new.yaml"),
        ("recommend", "recommend"),
        ("recommend-wide", "recommend -o wide"),
        ("quota", "describe quota"),
        ("limits", "describe limits"),
        ("tenantquota", "describe tenantquota payments --cluster-dir tenants"),
        ("tenantquotas", "describe tenantquota --tree --cluster-dir tenants"),
        ("usage", "describe usage"),
        ("simulate", "simulate -f world"),
    ] {
        for width in [80, 120, 200] {
            let arguments = format!("{command} {WORLD}");
            let said = said(program().args(arguments.split_whitespace()).env("COLUMNS", width.to_string()));
            snapshot(&format!("screens/{name}-{width}.txt"), &said.out);
            // A wide table is as wide as it is, and so is kubectl's own.
            let is_wide = ["recommend-wide", "limits"].contains(&name);
            let widest = said.out.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(is_wide || widest <= width, "{name} at {width}: {widest}\n{}", said.out);
        }
    }
}
