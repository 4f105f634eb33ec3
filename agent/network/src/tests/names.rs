//! Tests name resolution by the C library that is linked into the agent.

use std::io;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::net::ToSocketAddrs as _;

use super::*;
use crate::lab::on_a_machine;
use crate::resolv_conf::{self, DnsServer};

/// Mounts an empty /etc, as in the ramdisk: the files of a build machine could
/// change the result.
fn empty_etc() {
    let none = None::<&str>;
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    mount(Some("none"), "/etc", Some("tmpfs"), MsFlags::empty(), none).unwrap();
}

fn look_up(name: &str) -> io::Result<Vec<IpAddr>> {
    let found = (name, 80).to_socket_addrs()?;
    Ok(found.map(|address| address.ip()).collect())
}

/// There is no resolv.conf at first, as at boot. The C library notices a change of the
/// file at the next lookup, so nothing has to be restarted.
#[test]
fn a_changed_resolver_file_counts_for_the_next_lookup() {
    on_a_machine(async |lab| {
        lab.plug_in_up(0, &["192.0.2.1/24"]);
        let record = "--address=/ironic.lab.example/192.0.2.11";
        let _server = lab.dnsmasq("port0", &[POOL, "--port=53", record]);
        let mut network = lab.boot("ip=192.0.2.10:::24::eth0:none");
        until_has(lab, &mut network, "eth0", "192.0.2.10/24").await;

        empty_etc();
        let file = Path::new("/etc/resolv.conf");
        resolv_conf::write_hosts(Path::new("/etc/hosts")).unwrap();
        assert!(look_up("ironic.lab.example").is_err());
        assert!(look_up("localhost").is_ok());

        let server = DnsServer::by("eth0", [192, 0, 2, 1].into());
        resolv_conf::write(file, &[server], &["lab.example".to_owned()]).unwrap();
        let ironic: [IpAddr; 1] = [[192, 0, 2, 11].into()];
        assert_eq!(look_up("ironic.lab.example").unwrap(), ironic);
        assert_eq!(look_up("ironic").unwrap(), ironic, "by the search list");

        resolv_conf::write(file, &[], &[]).unwrap();
        assert!(look_up("ironic.lab.example").is_err());
    });
}
