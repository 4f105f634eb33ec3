use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{fs, io};

use landfall_boot_params::NetArgs;
use landfall_sys::skip::skip;

use super::*;

fn of_network_data(name: &str) -> Vec<Keyfile> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("test_data/network_data");
    let text = fs::read_to_string(dir.join(name)).unwrap();
    NetworkPlan::from_network_data(&text).unwrap().keyfiles()
}

fn of_arguments(line: &str) -> Vec<Keyfile> {
    let args = NetArgs::parse(line);
    NetworkPlan::for_boot(&args).keyfiles()
}

fn text<'a>(files: &'a [Keyfile], name: &str) -> &'a str {
    let found = files.iter().find(|file| file.name == name);
    &found
        .unwrap_or_else(|| panic!("no {name} in {files:#?}"))
        .text
}

#[test]
fn a_static_address() {
    assert_eq!(
        text(
            &of_network_data("ironic_static.json"),
            "52-54-00-00-00-11.nmconnection"
        ),
        "[connection]\nautoconnect=true\nautoconnect-slaves=-1\nid=52-54-00-00-00-11\n\
         type=802-3-ethernet\nuuid=8c16a4ce-967f-5120-93db-bf9e6cbbfe04\n\n\
         [ipv4]\naddress0=192.0.2.11/24\ndhcp-timeout=2147483647\ndns=192.0.2.53\n\
         gateway=192.0.2.1\nmay-fail=false\nmethod=manual\n\n\
         [ipv6]\ndhcp-timeout=2147483647\nmethod=disabled\n\n\
         [ethernet]\nmac-address=52:54:00:00:00:11\nmtu=1500\n"
    );
}

#[test]
fn a_vlan_on_a_bond() {
    let files = of_network_data("bond_with_vlan.json");
    assert_eq!(files.len(), 4);
    assert_eq!(
        text(&files, "52-54-00-00-00-02.nmconnection"),
        "[connection]\nautoconnect=true\nautoconnect-slaves=-1\nid=52-54-00-00-00-02\n\
         master=bond0\nslave-type=bond\ntype=802-3-ethernet\n\
         uuid=c275209b-faa1-56bd-997b-95bd2e3c5419\n\n\
         [ethernet]\nmac-address=52:54:00:00:00:02\n"
    );
    assert_eq!(
        text(&files, "bond0.nmconnection"),
        "[connection]\nautoconnect=true\nautoconnect-slaves=1\nid=bond0\n\
         interface-name=bond0\ntype=bond\nuuid=925b4a95-2de0-5b2d-bcf5-8b684a7e9cb4\n\n\
         [bond]\nlacp_rate=fast\nmiimon=100\nmode=802.3ad\nxmit_hash_policy=layer3+4\n\n\
         [ipv4]\ndhcp-timeout=2147483647\nmethod=disabled\n\n\
         [ipv6]\ndhcp-timeout=2147483647\nmethod=disabled\n\n\
         [ethernet]\ncloned-mac-address=52:54:00:00:00:01\nmtu=9000\n"
    );
    assert!(
        text(&files, "bond0.50.nmconnection").contains("[vlan]\nflags=1\nid=50\nparent=bond0\n")
    );
}

#[test]
fn a_vlan_on_a_nic_that_is_known_by_mac_has_no_name_yet() {
    let files = of_network_data("vlan_on_a_nic.json");
    let vlan = text(&files, "port.100.nmconnection");
    assert!(
        !vlan.contains("interface-name") && !vlan.contains("parent="),
        "{vlan}"
    );
    assert!(vlan.contains("mac-address=52:54:00:00:00:01\n"), "{vlan}");
    assert!(vlan.contains("dhcp-client-id=mac\n"), "{vlan}");
}

#[test]
fn a_nic_that_no_argument_names_has_no_file() {
    assert_eq!(of_arguments("quiet"), []);
    assert_eq!(
        of_arguments("ip=dhcp rd.route=10.0.0.0/8:192.0.2.1:eth1").len(),
        1
    );
}

#[test]
fn two_profiles_for_one_nic_have_two_files() {
    let files = of_arguments(
        "ip=192.0.2.5:::24::52-54-00-00-00-02:none ip=192.0.2.6:::24::52-54-00-00-00-01:none \
         BOOTIF=01-52-54-00-00-00-01",
    );
    let names: Vec<_> = files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "52-54-00-00-00-01.nmconnection",
            "bootif_connection.nmconnection",
            "52-54-00-00-00-02.nmconnection",
        ]
    );
    let value = |file: &Keyfile, key: &str| {
        let line = file.text.lines().find(|line| line.starts_with(key));
        line.map(str::to_owned)
    };
    assert_ne!(value(&files[0], "uuid="), value(&files[1], "uuid="));
    let priorities: Vec<_> = files
        .iter()
        .map(|file| value(file, "autoconnect-priority="))
        .collect();
    let low = Some("autoconnect-priority=-100".to_owned());
    assert_eq!(priorities, [None, low, None]);

    let mut plan = NetworkPlan::for_boot(&NetArgs::parse("ip=52-54-00-00-00-01:dhcp"));
    plan.interfaces.push(plan.interfaces[0].clone());
    let [first, second] = &plan.keyfiles()[..] else {
        panic!("{:?}", plan.keyfiles())
    };
    assert_eq!(second.name, "52-54-00-00-00-01-2.nmconnection");
    assert_ne!(value(first, "uuid="), value(second, "uuid="));
}

#[test]
fn an_infiniband_port_has_a_file() {
    let files = of_arguments("ip=80-00-02-08-fe-80-00-00-00-00-00-00-00-02-c9-03-00-12-34-57:dhcp");
    let file = text(
        &files,
        "80-00-02-08-fe-80-00-00-00-00-00-00-00-02-c9-03-00-12-34-57.nmconnection",
    );
    assert!(file.contains("\nmac-address=80:00:02:08:fe:80:"), "{file}");
}

#[test]
fn a_vendor_class_keeps_its_backslashes() {
    let files = of_arguments(r"ip=eth0:dhcp rd.net.dhcp.vendor-class=a\040b");
    let file = text(&files, "eth0.nmconnection");
    let line = "\ndhcp-vendor-class-identifier=a\\\\040b\n";
    assert!(file.contains(line), "{file}");
}

/// The nmcli of the package that tests/setup.sh unpacks, because NetworkManager is not
/// installed where these tests run. Without that package, the nmcli of this machine.
fn nmcli() -> Command {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../out/packages/nmcli/usr");
    let program = unpacked.join("bin/nmcli");
    if !program.exists() {
        return Command::new("nmcli");
    }
    let mut nmcli = Command::new(program);
    nmcli.env("LD_LIBRARY_PATH", unpacked.join("lib/x86_64-linux-gnu"));
    nmcli
}

/// Returns what NetworkManager itself reads from a file, written as a keyfile again, or
/// its error message. Fails if there is no nmcli.
fn as_network_manager_reads(file: &Keyfile) -> io::Result<Result<String, String>> {
    let mut nmcli = nmcli()
        // `nmcli --offline` reads a profile only together with a change of it.
        .args([
            "--offline",
            "connection",
            "modify",
            "connection.autoconnect",
            "yes",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = nmcli.stdin.take().unwrap();
    // If nmcli ends before it has read everything, its output says why.
    let _ = stdin.write_all(file.text.as_bytes());
    drop(stdin);
    let output = nmcli.wait_with_output()?;
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let is_right = output.status.success() && output.stderr.is_empty();
    Ok(if is_right {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
    })
}

#[test]
fn network_manager_reads_every_file() {
    let mut files = Vec::new();
    for name in [
        "bond_with_vlan.json",
        "dual_stack.json",
        "every_automatic_type.json",
        "ipv6_static.json",
        "two_addresses_and_dhcp.json",
        "vlan_on_a_nic.json",
        "bond_mode_as_ironic_spells_it.json",
    ] {
        files.extend(of_network_data(name));
    }
    files.extend(of_arguments(
        "bridge=br0:eth0,eth1 ip=br0:dhcp vlan=v9:br0 ip=192.0.2.9::192.0.2.1:24:node7:v9:none:1400 \
         rd.route=10.0.0.0/8:192.0.2.2:v9 rd.route=198.51.100.0/24::v9 ip=eth5:link6 ip=eth6:dhcp \
         rd.peerdns=0 rd.net.dhcp.vendor-class=landfall",
    ));
    assert!(files.len() > 20);
    for file in &files {
        let read = match as_network_manager_reads(file) {
            Ok(read) => read,
            Err(error) => return skip(format_args!("nmcli: {error}")),
        };
        let read = read.unwrap_or_else(|error| panic!("{}: {error}\n{}", file.name, file.text));
        // nmcli prints the keys that it has read in its own order and spelling, so the
        // test looks only for the addresses.
        for line in file.text.lines().filter(|line| line.starts_with("address")) {
            let (_, address) = line.split_once('=').unwrap();
            assert!(read.contains(address), "{line} is not in\n{read}");
        }
    }
}
