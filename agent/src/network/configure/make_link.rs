//! Makes a virtual device, and looks whether it is what was asked for.

use crate::network::apply::Changes;
use crate::network::configure::link_setup::note;
use crate::network::virtual_link::VirtualLink;

/// Makes the device, or makes the one of this name so: an agent that starts
/// again finds what it has made. Where the kernel refuses all options together
/// each is tried alone, for one that does not go with the others must not cost
/// the network. Returns what is not as asked, a line each.
pub(super) async fn make_link(changes: &Changes, wanted: &VirtualLink) -> Vec<String> {
    let mut errors = Vec::new();
    if let Err(all) = changes.make(wanted.request()).await
        && changes.make(wanted.bare_request()).await.is_err()
    {
        return vec![format!("making it: {all}")];
    }
    let there = match changes.look_up(&wanted.name).await {
        Ok(there) => there,
        Err(error) => return vec![format!("looking it up: {error}")],
    };
    let different = match wanted.differences(&there) {
        Ok(different) => different,
        Err(what) => return vec![format!("the name is taken: {what}")],
    };
    let mut changed = Vec::new();
    for option in different {
        match changes.change(wanted.change_request(option)).await {
            Ok(()) => changed.push(option),
            refused => note(&mut errors, &option.text, refused),
        }
    }
    if changed.is_empty() {
        return errors;
    }
    if let Ok(there) = changes.look_up(&wanted.name).await
        && let Ok(different) = wanted.differences(&there)
    {
        let ignored = changed.iter().filter(|option| different.contains(option));
        errors.extend(
            ignored
                .map(|option| format!("{}: the kernel has taken it and not done it", option.text)),
        );
    }
    errors
}
