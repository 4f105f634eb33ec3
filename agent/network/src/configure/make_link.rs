//! Creates a virtual device and checks that the kernel applied every option.

use crate::apply::Changes;
use crate::configure::link_setup::note;
use crate::virtual_link::VirtualLink;

/// Creates the device, or changes the existing device of this name, which the agent may
/// have created before a restart. If the kernel refuses all options together, sets each
/// option alone, so that one incompatible option does not cut off the network. Returns a
/// line for each difference from the request.
pub(super) async fn make_link(changes: &Changes, wanted: &VirtualLink) -> Vec<String> {
    let mut errors = Vec::new();
    if let Err(all) = changes.make(wanted.request()).await
        && changes.make(wanted.bare_request()).await.is_err()
    {
        return vec![format!("cannot create it: {all}")];
    }
    let there = match changes.look_up(&wanted.name).await {
        Ok(there) => there,
        Err(error) => return vec![format!("cannot look it up: {error}")],
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
        errors.extend(ignored.map(|option| {
            format!(
                "{}: the kernel accepted the option but did not apply it",
                option.text
            )
        }));
    }
    errors
}
