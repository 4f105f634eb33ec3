//! Gives a NIC the name that the installed system will give it. This is the first step,
//! because the network configuration refers to the name.

use std::io;

use landfall_devices::interface_names::{self, InterfaceName, NamingPolicy};
use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;
use nix::errno::Errno;

use crate::apply::Changes;
use crate::links::Link;

const MOST_NICS: u32 = 4096;

/// Renames the NIC and adds its other names, including the kernel's, as alternative
/// names. If a rename fails, it logs a warning and keeps the current name.
pub(super) async fn give_names(changes: &Changes, link: &mut Link, policy: &NamingPolicy) {
    let mac = link.permanent_mac.unwrap_or(link.mac);
    if !policy.given.is_empty() {
        // The NIC may have been renamed since the event: another NIC needed its name.
        if let Ok(Some(name)) = changes.name_of(link.index).await {
            link.name = name;
        }
    }
    let given = policy.given_to(mac);
    let Some(wanted) = predictable(link, policy).or_else(|| {
        given.map(|given| InterfaceName {
            kernel_name: link.name.clone(),
            name: given.to_owned(),
            alternatives: Vec::new(),
        })
    }) else {
        return;
    };
    let mut others = wanted.alternatives;
    if wanted.name != link.name {
        let mut result = changes.rename(link.index, &wanted.name).await;
        if given.is_some() && is_taken(&result) {
            result = match make_room(changes, &wanted.name, policy).await {
                Ok(()) => changes.rename(link.index, &wanted.name).await,
                Err(error) => Err(error),
            };
        }
        match result {
            Ok(()) => {
                tracing::debug!("{} is called {} now", link.name, wanted.name);
                others.push(std::mem::replace(&mut link.name, wanted.name));
            }
            Err(error) => tracing::warn!(
                "{}: cannot rename it to {}: {error}",
                link.name,
                wanted.name
            ),
        }
    }
    for name in others {
        if link.alternative_names.contains(&name) || policy.is_reserved(&name, Some(mac)) {
            continue;
        }
        if let Err(error) = changes.add_name(link.index, &name).await {
            // This error is normal: the ports of a card without port numbers share the
            // name of the slot.
            tracing::debug!(
                "{}: cannot add the alternative name {name}: {error}",
                link.name
            );
        }
        link.alternative_names.push(name);
    }
}

fn predictable(link: &Link, policy: &NamingPolicy) -> Option<InterfaceName> {
    let root = SystemPath::live();
    let address = sysfs::text(&root.join("sys/class/net").join(&link.name).join("address"));
    // A container may see the /sys of another network namespace.
    if address != Some(link.mac.to_string()) {
        return None;
    }
    let mac = link.permanent_mac.unwrap_or(link.mac);
    interface_names::name_of(&root, &link.name, mac, policy)
}

fn is_taken(result: &io::Result<()>) -> bool {
    let error = result.as_ref().err().and_then(io::Error::raw_os_error);
    error == Some(Errno::EEXIST as i32)
}

/// Renames the NIC that already has the name `name` of an `ifname=` argument. With
/// `ifname=eth0:MAC`, for example, the kernel may have named another NIC `eth0`.
async fn make_room(changes: &Changes, name: &str, policy: &NamingPolicy) -> io::Result<()> {
    let holder = changes.look_up(name).await?.header.index;
    for number in 0..MOST_NICS {
        let other = format!("eth{number}");
        if policy.is_reserved(&other, None) {
            continue;
        }
        let result = changes.rename(holder, &other).await;
        if !is_taken(&result) {
            return result;
        }
    }
    Err(Errno::EEXIST.into())
}
