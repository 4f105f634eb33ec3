//! Passes the documented kernel arguments through Ironic's own parser, like the
//! `kernel_append_params` of a node (`ironic/common/kernel_parameters.py`, since
//! 2026-07). The parser refuses lines that it cannot parse, groups arguments with the
//! same name, and drops the quotes around values.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use landfall_ironic_tests::documented_arguments::Arguments;
use landfall_ironic_tests::python;
use landfall_tests::artifacts;

/// A Python program that prints each line of its input as Ironic's parser returns it,
/// or an empty line if the parser rejects it.
const PARSE: &str = "
import sys
from ironic.common.exception import InvalidParameterValue
from ironic.common.kernel_parameters import KernelCommandLine
for line in sys.stdin:
    try:
        print(KernelCommandLine.parse(line.rstrip('\\n')))
    except InvalidParameterValue:
        print()
";

/// The kernel arguments that ironic-image puts in front of the operator's
/// (`scripts/ironic-common.sh` and the templates in `ironic-config` there).
const IN_FRONT: &str = "nofb nomodeset vga=normal ipa-insecure=1 fips=1 \
    sshkey=\"ssh-ed25519 AAAAC3Nza operator of the lab\" console=ttyS0,115200n8 console=tty0 \
    systemd.journald.forward_to_console=yes selinux=0 troubleshoot=0 text BOOTIF=52:54:00:00:00:01";

#[test]
fn documented_arguments_pass_ironics_parser() -> Result<()> {
    let documented = Arguments::read()?;
    let missing = documented.without_a_line();
    ensure!(
        missing.is_empty(),
        "documented without a value: {missing:?}"
    );
    let mut lines: Vec<(String, String)> = { documented.lines.iter() }
        .map(|documented| (documented.place.clone(), documented.line.clone()))
        .collect();
    let count = lines.len();
    ensure!(count > 200, "found only {count} documented lines");
    lines.push(("ironic-image".to_owned(), IN_FRONT.to_owned()));

    let texts: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
    let parsed = by_ironic(&texts)?;
    for ((place, line), parsed) in lines.iter().zip(&parsed) {
        ensure!(!parsed.is_empty(), "{place}: Ironic refuses {line}");
        for stage in ["show-params", "plan-network"] {
            let (before, after) = (shown(stage, line)?, shown(stage, parsed)?);
            ensure!(
                before == after,
                "{place}: {stage} differs after Ironic's parser\nbefore: {line}\n{before}\nafter: {parsed}\n{after}"
            );
        }
    }
    Ok(())
}

/// Ironic rejects an argument such as `coreos.inst.insecure=`. docs/kernel-arguments.md
/// says what to write instead.
#[test]
fn ironic_refuses_empty_values() -> Result<()> {
    let lines = [
        "coreos.inst.insecure=",
        "coreos.inst.insecure",
        "coreos.inst.insecure=0",
    ];
    let parsed = by_ironic(&lines)?;
    ensure!(parsed == ["", lines[1], lines[2]], "{parsed:?}");
    // An empty value and 0 mean the same to the agent.
    let settings = lines.map(|line| shown("show-params", line));
    let [empty, flag, zero] = settings.map(Result::ok);
    ensure!(
        empty.is_some() && empty == zero && empty != flag,
        "{empty:?} {zero:?}"
    );
    Ok(())
}

/// Passes each line through Ironic's parser. Returns one line for each, which is empty
/// if the parser rejects the line.
fn by_ironic(lines: &[&str]) -> Result<Vec<String>> {
    let mut python = Command::new(python())
        .args(["-c", PARSE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting Python (make ironic makes its environment)")?;
    let mut input = python.stdin.take().context("no standard input")?;
    input.write_all((lines.join("\n") + "\n").as_bytes())?;
    drop(input);
    let output = python.wait_with_output()?;
    ensure!(
        output.status.success(),
        "Ironic's parser has failed; see above"
    );
    let text = String::from_utf8(output.stdout)?;
    let parsed: Vec<String> = text.lines().map(str::to_owned).collect();
    let (expected, found) = (lines.len(), parsed.len());
    ensure!(
        expected == found,
        "Ironic has printed {found} of {expected} lines"
    );
    Ok(parsed)
}

/// What a stage of the agent prints for this kernel command line.
fn shown(stage: &str, line: &str) -> Result<String> {
    let output = Command::new(artifacts::agent()?)
        .args([stage, "--json", "--cmdline", line])
        .output()?;
    ensure!(
        output.status.success(),
        "{stage} of {line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}
