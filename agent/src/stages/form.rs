//! Offers the network form on the consoles, and restarts the agent with what the operator
//! has entered.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use landfall_boot_params::argument_value::{ArgumentValue as _, ServiceUrls};
use landfall_boot_params::{BootParams, without_secrets};
use landfall_network::NetworkState;
use landfall_network::state::NicState;
use landfall_network_form::{NetworkForm, NetworkStays, OfferedNic, Prefill, Values};
use landfall_network_plan::{MacAddr, NetworkPlan};
use landfall_report::failure::{Failure, Result};
use landfall_report::status::{self, Status};
use landfall_settings::{FormArguments, Settings};
use landfall_sys::state_file::STATE_DIRECTORY;
use tokio::sync::{mpsc, watch};

/// The kernel arguments that the operator wants to try.
pub(super) type Tried = mpsc::UnboundedReceiver<FormArguments>;
pub(super) type TryThem = mpsc::UnboundedSender<FormArguments>;

/// The longest provisioning URL of the boot that the form shows, in bytes.
const LONGEST_URL: usize = 200;

/// Offers the form on every console of the ramdisk. `plan` is the network of this boot.
pub(super) fn offer(
    settings: Arc<Settings>,
    plan: NetworkPlan,
    network: watch::Receiver<NetworkState>,
    try_them: TryThem,
) {
    landfall_report::form::offer(move || {
        let nics = offered(&status::now(), &network.borrow());
        let becomes = |arguments: &str| settings.plan_with(&FormArguments(arguments.to_owned()));
        let prefill = Prefill::of_plan(&plan, &nics, service(&settings), becomes);
        let try_them = try_them.clone();
        let try_arguments = move |arguments: &str| {
            if let Some(reason) = status::now().why_network_stays() {
                return Err(NetworkStays(reason));
            }
            let arguments = FormArguments(arguments.to_owned());
            let sent = try_them.send(arguments);
            sent.map_err(|_| NetworkStays("the agent is ending"))
        };
        Box::new(NetworkForm::new(nics, prefill, Box::new(try_arguments)))
    });
}

/// The values of the form that are not about the network. A URL with a secret is shown
/// only if the operator has typed it into the form.
fn service(settings: &Settings) -> Values {
    let of_form = settings.form.as_ref();
    let of_form = of_form.and_then(|form| form.value("ipa-api-url"));
    let of_boot = { settings.params.api_url.value.as_ref() }
        .map(ServiceUrls::to_text)
        .filter(|url| without_secrets(url) == *url && url.len() <= LONGEST_URL)
        .filter(|_| of_form.is_none())
        .unwrap_or_default();
    Values {
        url: of_form.unwrap_or_else(|| of_boot.clone()),
        url_of_boot: of_boot,
        inspection_path: inspection_path(&settings.params),
        ..Values::default()
    }
}

/// The path to which this boot posts the inventory, relative to the provisioning URL.
/// `None` if the boot arguments do not name it, or if it is on another server.
fn inspection_path(params: &BootParams) -> Option<String> {
    let (Some(ServiceUrls::Urls(service)), Some(ServiceUrls::Urls(inspection))) =
        (&params.api_url.value, &params.inspection_callback_url.value)
    else {
        return None;
    };
    let service = without_user(service.first()?);
    let path = without_user(inspection.first()?)
        .strip_prefix(&service)?
        .to_owned();
    path.starts_with('/').then_some(path)
}

/// The URL without user and password.
fn without_user(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let end = rest.find('/').unwrap_or(rest.len());
    let host = rest[..end].rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{}", &rest[host..])
}

/// The NICs that the form offers: those with a driver, so no bonds, bridges or VLANs.
fn offered(status: &Status, network: &NetworkState) -> Vec<OfferedNic> {
    let nics = status.network.nics.iter();
    nics.filter(|nic| nic.driver.is_some())
        .map(|nic| {
            let state = network.nics.iter().find(|state| state.name == nic.name);
            OfferedNic {
                name: nic.name.clone(),
                other_names: state.map_or_else(Vec::new, |nic| nic.alternative_names.clone()),
                macs: state.map_or_else(Vec::new, |nic| macs(nic, network)),
                carrier: nic.carrier,
                description: nic.in_words(),
            }
        })
        .collect()
}

/// The hardware addresses by which a plan may find the NIC. The current address of a
/// bond's port is left out, because it is the address of the bond.
fn macs(nic: &NicState, network: &NetworkState) -> Vec<MacAddr> {
    let is_shared = |other: &NicState| other.index != nic.index && other.mac == nic.mac;
    let own = Some(nic.mac).filter(|_| !network.nics.iter().any(is_shared));
    let permanent = nic.permanent_mac.filter(|mac| own != Some(*mac));
    permanent.into_iter().chain(own).collect()
}

/// Waits until the operator tries a network, and stores it.
pub(super) async fn stored(tried: &mut Tried) -> Result<()> {
    let Some(arguments) = tried.recv().await else {
        // The form is not offered.
        return std::future::pending().await;
    };
    let stored = arguments.store(Path::new(STATE_DIRECTORY));
    stored.map_err(|error| Failure::other(format!("cannot store what the form gives: {error}")))?;
    tracing::info!("the form on the console changes the network; the agent starts again");
    Ok(())
}

/// Replaces this process by a new agent with the same process ID, so init does not notice
/// a restart. Returns only if the kernel rejects this.
pub(super) fn start_again() -> io::Error {
    Command::new("/proc/self/exe")
        .args(std::env::args_os().skip(1))
        .exec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inspection_follows_a_service_on_the_same_server_only() {
        use landfall_boot_params::CommandLine;
        for (service, inspection, path) in [
            (
                "http://h:6385",
                "http://h:6385/v1/continue_inspection",
                Some("/v1/continue_inspection"),
            ),
            (
                "https://h/baremetal/",
                "https://u:p@h/baremetal/v1/x",
                Some("/v1/x"),
            ),
            ("http://u:p@h", "http://h/v1/x", Some("/v1/x")),
            ("http://h:6385", "http://h:5050/v1/continue", None),
            ("http://h", "http://h2/v1/x", None),
            ("http://h", "https://h/v1/x", None),
            ("mdns", "http://h/v1/x", None),
        ] {
            let line = format!("ipa-api-url={service} ipa-inspection-callback-url={inspection}");
            let params = BootParams::from_command_line(&CommandLine::parse(&line));
            assert_eq!(inspection_path(&params).as_deref(), path, "{line}");
        }
        let without = CommandLine::parse("ipa-api-url=http://h:6385");
        assert_eq!(
            inspection_path(&BootParams::from_command_line(&without)),
            None
        );
    }

    #[test]
    fn the_url_of_the_boot_needs_no_argument_and_that_of_the_form_stays() {
        use landfall_boot_params::CommandLine;
        use landfall_settings::media::Media;
        use landfall_settings::{ConfigFiles, IgnitionParts};
        let settings = |line: &str, form: Option<&str>| {
            let line = CommandLine::parse(line);
            let (files, ignition) = (ConfigFiles::default(), IgnitionParts::default());
            let settings = Settings::from_sources(line, Media::default(), files, ignition);
            settings.with_form(form.map(|text| FormArguments(text.to_owned())))
        };
        let boot = "ipa-api-url=http://h:6385";
        let tried = "ip=eth0:auto ipa-api-url=http://u:p@h2";
        for (line, form, url, url_of_boot) in [
            ("", None, "", ""),
            (boot, None, "http://h:6385", "http://h:6385"),
            (boot, Some("ip=eth0:auto"), "http://h:6385", "http://h:6385"),
            (boot, Some(tried), "http://u:p@h2", ""),
            ("ipa-api-url=mdns", None, "mdns", "mdns"),
            // A secret of the boot is not shown.
            ("ipa-api-url=http://u:p@h:6385", None, "", ""),
        ] {
            let values = service(&settings(line, form));
            let found = (values.url.as_str(), values.url_of_boot.as_str());
            assert_eq!(found, (url, url_of_boot), "{line} {form:?}");
        }
    }

    #[test]
    fn a_port_is_found_by_its_permanent_address_only() {
        use landfall_network::lab::nic;
        let mac = |last| MacAddr([0x52, 0x54, 0, 0, 0, last]);
        let port = |index| NicState {
            mac: mac(1),
            permanent_mac: Some(mac(index as u8)),
            ..nic(index, false)
        };
        let bond = NicState {
            mac: mac(1),
            is_virtual: true,
            ..nic(9, false)
        };
        let network = NetworkState {
            nics: vec![port(1), port(2), bond, nic(3, false)],
            ..NetworkState::default()
        };
        let found = |index: usize| macs(&network.nics[index], &network);
        assert_eq!(found(0), [mac(1)]);
        assert_eq!(found(1), [mac(2)]);
        assert_eq!(found(3), [mac(3)]);
    }
}
