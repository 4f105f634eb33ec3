//! Passes the documented kernel arguments through Ironic's own parser, as
//! `kernel_append_params` of a node goes through it (`ironic/common/kernel_parameters.py`,
//! since 2026-07). It refuses lines that it cannot parse, brings arguments with the same
//! name together, and drops the quotes around values.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use landfall_tests::{artifacts, ironic};

/// Prints each line of its input as Ironic hands it on.
const PARSE: &str = "
import sys
from ironic.common.kernel_parameters import KernelCommandLine
for line in sys.stdin:
    print(KernelCommandLine.parse(line.rstrip('\\n')))
";

/// The arguments in the generated table of docs/kernel-arguments.md, each with its
/// default or 1.
fn settings() -> Vec<String> {
    let page = include_str!("../../docs/kernel-arguments.md");
    let mut lines = page.lines();
    let head = "| argument | option in files | default | meaning |";
    let _ = lines.find(|line| *line == head);
    let rows = lines.skip(1).map_while(|line| line.strip_prefix("| "));
    rows.filter_map(|row| {
        let mut cells = row.split(" | ").map(|cell| cell.trim().trim_matches('`'));
        let (name, _option, default) = (cells.next()?, cells.next()?, cells.next()?);
        let value = if default.is_empty() { "1" } else { default };
        (!name.is_empty()).then(|| format!("{name}={value}"))
    })
    .collect()
}

/// What docs/network-arguments.md and docs/kernel-arguments.md document besides, as an
/// operator would write it.
const LINES: [&str; 24] = [
    "ip=192.0.2.10::192.0.2.1:255.255.255.0:host-1:eno1:none nameserver=192.0.2.53 nameserver=192.0.2.54",
    "ip=[2001:db8::10]::[2001:db8::1]:64::eno1:none nameserver=[2001:db8::53]",
    "ip=dhcp,dhcp6 rd.net.timeout.dhcp=20 rd.net.dhcp.retry=3 rd.net.timeout.carrier=10",
    "ip=eno1:dhcp:1500:52:54:00:00:00:01 ip=eno2:off",
    "ip=bond0.100:dhcp bond=bond0:eno1,eno2:mode=802.3ad,miimon=100:9000 vlan=bond0.100:bond0",
    "bridge=br0:eno1,eno2 ip=br0:dhcp",
    "team=team0:eno1,eno2:activebackup ip=team0:dhcp",
    "ifname=net0:52:54:00:00:00:01 ip=net0:dhcp",
    "BOOTIF=01-52-54-00-00-00-01 rd.bootif=0",
    "bootdev=eno1 ip=eno1:dhcp ip=eno2:dhcp",
    "rd.route=198.51.100.0/24:192.0.2.254:eno1 ip=192.0.2.10::192.0.2.1:24::eno1:none",
    "rd.ethtool=eno1:off:1000 rd.peerdns=0 rd.net.timeout.ip-required=30 ip=eno1:dhcp",
    "rd.net.dns=192.0.2.53 rd.net.dhcp.dscp=CS4 rd.net.dhcp.vendor-class=landfall ip=dhcp",
    "rd.net.dhcp.client-id=eno1:0102 ip=eno1:dhcp ib.pkey=ib0.8001",
    "ip=ibft",
    "boot_method=vmedia config_drive_label=ir-vfd-dev",
    "coreos.inst.install_dev=/dev/disk/by-id/wwn-0x5000c500 coreos.inst.image_url=https://h/i.raw.xz",
    "coreos.inst.install_dev=sda coreos.inst.ignition_url=https://h/c.ign coreos.inst.insecure coreos.inst.skip_reboot",
    "coreos.inst.save_partlabel=data* coreos.inst.save_partindex=5-7 coreos.inst.platform_id=metal",
    "landfall.coreos.inst.image_digest=sha256:00ff landfall.coreos.inst.ignition_hash=sha512-00ff",
    "landfall.coreos.image=http://h/i.raw.gz landfall.coreos.image_checksum=sha256:00ff",
    "nofb nomodeset vga=normal fips=1 console=ttyS0,115200n8 console=tty0",
    "sshkey=\"ssh-ed25519 AAAAC3Nza operator of the lab\" ipa-api-url=http://192.0.2.1:6385",
    "systemd.journald.forward_to_console=yes ipa-debug=1 ipa-global-request-id=req-1",
];

#[test]
fn documented_arguments_pass_ironics_parser() -> Result<()> {
    let mut lines = settings();
    ensure!(
        lines.len() > 40,
        "found only {} settings in the page",
        lines.len()
    );
    lines.extend(LINES.map(str::to_owned));
    let parsed = by_ironic(&lines)?;
    ensure!(
        parsed.len() == lines.len(),
        "Ironic has printed {} of {} lines",
        parsed.len(),
        lines.len()
    );
    for (line, parsed) in lines.iter().zip(&parsed) {
        for stage in ["show-params", "plan-network"] {
            let (before, after) = (shown(stage, line)?, shown(stage, parsed)?);
            ensure!(
                before == after,
                "{stage} differs after Ironic's parser\nbefore: {line}\n{before}\nafter: {parsed}\n{after}"
            );
        }
    }
    Ok(())
}

fn by_ironic(lines: &[String]) -> Result<Vec<String>> {
    let mut python = Command::new(ironic::python())
        .args(["-c", PARSE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting Python (make ironic makes its environment)")?;
    let mut input = python.stdin.take().context("no standard input")?;
    input.write_all((lines.join("\n") + "\n").as_bytes())?;
    drop(input);
    let output = python.wait_with_output()?;
    ensure!(output.status.success(), "Ironic refuses a line; see above");
    Ok(String::from_utf8(output.stdout)?
        .lines()
        .map(str::to_owned)
        .collect())
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
