//! Turns a plan into NetworkManager profiles and activates them.
//!
//! The agent does not remove the profile files: NetworkManager reads them when it
//! restarts, and CoreOS' own installer looks for them in this directory
//! (`--copy-network`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use futures_util::future::join_all;
use landfall_network_plan::{Keyfile, NetworkPlan};
use landfall_sys::private_file;
use zbus::{ObjectPath, OwnedObjectPath};

use super::active_connection::{ACTIVATION_LIMIT, ACTIVE_CONNECTION, Outcome, SERVICE, follow};
use super::bus::{Bus, Object};

/// Where NetworkManager keeps permanent profiles.
const PROFILES: &str = "/etc/NetworkManager/system-connections";

/// Writes, loads and activates a profile for each interface of the plan. If an interface
/// is down in the plan, its profile is only written and loaded. If a profile cannot be
/// written, the agent reports that and activates none. If NetworkManager cannot activate
/// a profile, the agent reports that and activates the others.
pub(super) async fn configure(bus: &Bus, plan: &NetworkPlan) {
    let keyfiles = plan.keyfiles();
    let files = match write_all(Path::new(PROFILES), &keyfiles) {
        Ok(files) => files,
        Err(error) => {
            tracing::error!("cannot write NetworkManager's profiles: {error}");
            return;
        }
    };
    if files.is_empty() {
        return;
    }
    match load(bus, &files).await {
        Ok(profiles) => {
            let stays_down = names_of_idle(&keyfiles);
            let wanted = profiles.iter().filter(|p| !stays_down.contains(&p.name));
            let mut begun = Vec::new();
            // Activate the profiles one after the other: NetworkManager rejects a profile
            // that needs a device which NetworkManager does not know yet.
            for profile in wanted {
                match begin(bus, profile).await {
                    Ok(active) => begun.push((&profile.name, active)),
                    Err(error) => cannot_now(&profile.name, &error),
                }
            }
            join_all(
                begun
                    .into_iter()
                    .map(|(name, active)| wait(bus, name, active)),
            )
            .await;
        }
        Err(error) => tracing::error!("cannot load {PROFILES} into NetworkManager: {error}"),
    }
}

/// Takes every device off the network. NetworkManager does not activate a device again
/// afterwards.
pub(super) async fn disable(bus: &Bus) -> zbus::Result<()> {
    let manager = bus
        .known_object(SERVICE, "/org/freedesktop/NetworkManager", SERVICE)
        .await?;
    let enable = false;
    manager.call("Enable", &(enable,)).await
}

/// Writes the files. Each file appears complete, by a rename, because NetworkManager
/// watches the directory. Returns the paths in the order of activation.
fn write_all(directory: &Path, keyfiles: &[Keyfile]) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut keyfiles: Vec<&Keyfile> = keyfiles.iter().collect();
    keyfiles.sort_by_key(|keyfile| rank(keyfile));
    for keyfile in keyfiles {
        let path = directory.join(&keyfile.name);
        // The name is hidden and lacks the suffix of a profile, so NetworkManager does
        // not read the unfinished file.
        let new = directory.join(format!(".{}.new", keyfile.name));
        private_file::write(&new, keyfile.text.as_bytes())
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
        files.push(path);
    }
    Ok(files)
}

/// The names of the profiles that neither NetworkManager nor the agent activates, because
/// their interfaces are down in the plan.
fn names_of_idle(keyfiles: &[Keyfile]) -> Vec<String> {
    let is_idle = |keyfile: &&Keyfile| value(keyfile, "autoconnect=") == Some("false");
    let idle = keyfiles.iter().filter(is_idle);
    idle.map(|keyfile| name_of(Path::new(&keyfile.name)))
        .collect()
}

/// The value of the first line `key=...`.
fn value<'a>(keyfile: &'a Keyfile, key: &str) -> Option<&'a str> {
    let mut lines = keyfile.text.lines();
    lines.find_map(|line| line.strip_prefix(key))
}

/// The order of activation: a bond before its ports, and the device of a VLAN before the
/// VLAN.
fn rank(keyfile: &Keyfile) -> u8 {
    match value(keyfile, "type=") {
        Some("bond" | "bridge" | "team") => 0,
        Some("vlan") => 2,
        _ => 1,
    }
}

/// A profile that NetworkManager has loaded.
struct Profile {
    name: String,
    path: OwnedObjectPath,
}

async fn load(bus: &Bus, files: &[PathBuf]) -> zbus::Result<Vec<Profile>> {
    let settings = bus
        .known_object(
            SERVICE,
            "/org/freedesktop/NetworkManager/Settings",
            "org.freedesktop.NetworkManager.Settings",
        )
        .await?;
    let paths: Vec<&str> = files.iter().filter_map(|path| path.to_str()).collect();
    let (_, refused): (bool, Vec<String>) = settings.call("LoadConnections", &(paths,)).await?;
    for file in refused {
        tracing::error!("NetworkManager rejects {file}; see its journal for the reason");
    }
    let known: Vec<OwnedObjectPath> = settings.call("ListConnections", &()).await?;
    let mut profiles = Vec::new();
    for path in known {
        let connection = bus
            .object(
                SERVICE,
                path.clone(),
                "org.freedesktop.NetworkManager.Settings.Connection",
            )
            .await?;
        // A profile that was deleted in the meantime is not one of ours.
        let Ok(file) = connection.get_property::<String>("Filename").await else {
            continue;
        };
        if let Some(place) = files.iter().position(|ours| ours == Path::new(&file)) {
            profiles.push((
                place,
                Profile {
                    name: name_of(&files[place]),
                    path,
                },
            ));
        }
    }
    profiles.sort_by_key(|(place, _)| *place);
    Ok(profiles.into_iter().map(|(_, profile)| profile).collect())
}

fn name_of(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// Activates a profile, and returns the active connection. The profile replaces any other
/// profile of the device, such as the one that NetworkManager creates for every NIC. If
/// the device does not exist yet, NetworkManager activates the profile when the device
/// appears, because `autoconnect` is the default.
async fn begin(bus: &Bus, profile: &Profile) -> zbus::Result<OwnedObjectPath> {
    let manager: Object = bus
        .known_object(SERVICE, "/org/freedesktop/NetworkManager", SERVICE)
        .await?;
    // If the device had no profile, NetworkManager has already activated this one. A
    // second request would remove the address for a moment.
    if let Some(active) = active_already(bus, &manager, &profile.path).await? {
        return Ok(active);
    }
    let any = ObjectPath::try_from("/")?;
    manager
        .call("ActivateConnection", &(&profile.path, &any, &any))
        .await
}

/// Waits for the result of an activation, with a time limit, and reports it.
async fn wait(bus: &Bus, name: &str, active: OwnedObjectPath) {
    match follow(bus, active).await {
        Ok(Outcome::Activated) => tracing::info!("NetworkManager: {name} is active"),
        Ok(Outcome::GivenUp(why)) => tracing::error!("NetworkManager: {name}: {why}"),
        Ok(Outcome::Activating) => tracing::warn!(
            "NetworkManager: {name} is not active after {} s",
            ACTIVATION_LIMIT.as_secs()
        ),
        Err(error) => cannot_now(name, &error),
    }
}

fn cannot_now(name: &str, error: &zbus::Error) {
    tracing::warn!("NetworkManager: {name} cannot be activated now: {error}");
}

/// The active connection of a profile, if it has one.
async fn active_already(
    bus: &Bus,
    manager: &Object,
    profile: &OwnedObjectPath,
) -> zbus::Result<Option<OwnedObjectPath>> {
    let active: Vec<OwnedObjectPath> = manager.get_property("ActiveConnections").await?;
    for path in active {
        let connection = bus.object(SERVICE, path.clone(), ACTIVE_CONNECTION).await?;
        // A connection that has ended in the meantime does not count.
        let of = connection.get_property::<OwnedObjectPath>("Connection");
        if of.await.is_ok_and(|of| of == *profile) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn profiles_are_private_and_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let keyfile = |text: &str| Keyfile {
            name: "eth0.nmconnection".to_owned(),
            text: text.to_owned(),
        };
        for text in ["[connection]\nid=a\n", "[connection]\nid=b\n"] {
            let written = write_all(dir.path(), &[keyfile(text)]).unwrap();
            assert_eq!(written, [dir.path().join("eth0.nmconnection")]);
            assert_eq!(fs::read_to_string(&written[0]).unwrap(), text);
            let mode = fs::metadata(&written[0]).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let error = write_all(Path::new("/proc/nowhere"), &[keyfile("")]).unwrap_err();
        assert!(error.to_string().contains("eth0.nmconnection"), "{error}");
    }

    #[test]
    fn profiles_that_others_need_come_first() {
        let dir = tempfile::tempdir().unwrap();
        let keyfiles = ["vlan", "ethernet", "bond"].map(|kind| Keyfile {
            name: format!("{kind}.nmconnection"),
            text: format!("[connection]\nid={kind}\ntype={kind}\n"),
        });
        let written = write_all(dir.path(), &keyfiles).unwrap();
        let names: Vec<String> = written.iter().map(|file| name_of(file)).collect();
        assert_eq!(names, ["bond", "ethernet", "vlan"]);
    }

    #[test]
    fn an_interface_that_is_down_is_not_activated() {
        let text = "interfaces:\n- {name: eth0, state: down}\n- {name: eth1, state: up}\n";
        let keyfiles = NetworkPlan::from_nmstate(text).unwrap().keyfiles();
        assert_eq!(keyfiles.len(), 2);
        assert_eq!(names_of_idle(&keyfiles), ["eth0"]);
    }

    #[test]
    fn a_profile_is_called_as_its_file() {
        assert_eq!(name_of(Path::new("/a/bond0.100.nmconnection")), "bond0.100");
    }
}
