//! A NIC gets the name that the installed system will give it, before anything
//! else: that is what its configuration calls it by.

use crate::interface_names::{self, NamingPolicy};
use crate::network::apply::Changes;
use crate::network::links::Link;
use crate::sysfs;
use crate::system_path::SystemPath;

/// Renames the NIC and lets it be found by its other names, the kernel's among
/// them. A name that cannot be given costs a warning: the kernel's stays.
pub(super) async fn give_names(changes: &Changes, link: &mut Link, policy: NamingPolicy) {
    let root = SystemPath::live();
    let address = sysfs::text(&root.join("sys/class/net").join(&link.name).join("address"));
    // A container may see the /sys of another network namespace.
    if address != Some(link.mac.to_string()) {
        return;
    }
    let Some(wanted) = interface_names::name_of(&root, &link.name, policy) else {
        return;
    };
    let mut others = wanted.alternatives;
    if wanted.name != link.name {
        match changes.rename(link.index, &wanted.name).await {
            Ok(()) => {
                tracing::debug!("{} is called {} now", link.name, wanted.name);
                others.push(std::mem::replace(&mut link.name, wanted.name));
            }
            Err(error) => tracing::warn!("{}: renaming to {}: {error}", link.name, wanted.name),
        }
    }
    for name in others {
        if link.alternative_names.contains(&name) {
            continue;
        }
        if let Err(error) = changes.add_name(link.index, &name).await {
            // Two ports of a card without a port number share a slot's name.
            tracing::debug!("{}: alternative name {name}: {error}", link.name);
        }
        link.alternative_names.push(name);
    }
}
