use std::fs;

use landfall_boot_params::CommandLine;
use landfall_boot_params::argument_value::ServiceUrls;

use super::*;
use crate::media::Media;
use crate::{IgnitionParts, Settings};

/// The defaults of OpenShift's image (ironic-agent-image, `ironic-python-agent.conf`).
const DEFAULTS: &str = "[DEFAULT]\ndebug = True\ncollect_lldp = True\n\
    inspection_collectors = default,logs\ninspection_dhcp_all_interfaces = True\n";

/// What image-customization-controller writes if cluster-baremetal-operator gives it no
/// URL of the inspector (`pkg/ignition/service_config.go`).
const OF_UNIT: &str = "\n[DEFAULT]\napi_url = https://192.0.2.5:6385,https://192.0.2.6:6385\n\
    inspection_callback_url = \ninsecure = True\nenable_vlan_interfaces = all\n";

struct Container {
    root: tempfile::TempDir,
    host: PathBuf,
}

impl Container {
    /// The container of a host. Its unit mounts the file /etc/ironic-python-agent.conf of
    /// the host, with the text `of_unit`, as ignition.conf.
    fn new(of_unit: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let host = root.path().join("mnt/coreos");
        let container = Self { root, host };
        container.add("etc/ironic-python-agent/00-defaults.conf", DEFAULTS);
        container.add("etc/ironic-python-agent/ignition.conf", of_unit);
        container.add("mnt/coreos/etc/ironic-python-agent.conf", of_unit);
        container
    }

    fn add(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn parts(&self, variables: &[(&str, &str)]) -> ContainerParts {
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        ContainerParts::read(self.root.path(), &self.host, variables)
    }

    /// The settings of an agent that has changed its root to the host's root.
    fn settings(&self, variables: &[(&str, &str)], line: &str) -> Settings {
        Settings::merged(
            CommandLine::parse(line),
            Media::default(),
            &self.host,
            IgnitionParts::default(),
            Some(self.parts(variables)),
        )
    }

    /// Removes the path of the directory that stands for the container's root.
    fn plain(&self, text: &str) -> String {
        text.replace(self.root.path().to_str().unwrap(), "")
    }
}

const VARIABLES: [(&str, &str); 9] = [
    ("PATH", "/usr/bin"),
    ("container", "podman"),
    ("IPA_COREOS_IP_OPTIONS", "ip=dhcp rd.neednet=1"),
    ("IPA_COREOS_COPY_NETWORK", "true"),
    ("IPA_DEFAULT_HOSTNAME", "node7"),
    ("IPA_OTHER", "1"),
    ("HTTP_PROXY", "http://proxy.example:3128"),
    ("HTTPS_PROXY", ""),
    ("NO_PROXY", ".example,192.0.2.0/24"),
];

#[test]
fn settings_of_openshifts_container() {
    let container = Container::new(OF_UNIT);
    container.add(
        "etc/landfall/site.conf",
        "[DEFAULT]\nlookup_timeout = 7\napi_url = http://192.0.2.1\n",
    );
    let settings = container.settings(&VARIABLES, "quiet ipa-lookup-interval=3");
    let listed = settings.params.list();
    let of = |key: &str| {
        let found = listed.iter().find(|setting| setting.key == key).unwrap();
        container.plain(&format!("{} ({})", found.value, found.origin))
    };
    let image = "/etc/ironic-python-agent/00-defaults.conf in the agent container";
    let unit = "/etc/ironic-python-agent/ignition.conf in the agent container";
    for (key, value, origin) in [
        (
            "ipa-api-url",
            "https://192.0.2.5:6385,https://192.0.2.6:6385",
            unit,
        ),
        ("ipa-insecure", "1", unit),
        ("ipa-enable-vlan-interfaces", "all", unit),
        ("ipa-collect-lldp", "1", image),
        ("ipa-inspection-collectors", "default,logs", image),
        ("ipa-inspection-dhcp-all-interfaces", "1", image),
        (
            "ipa-lookup-timeout",
            "7",
            "/etc/landfall/site.conf in the agent container",
        ),
        (
            "ipa-lookup-interval",
            "3",
            "kernel argument ipa-lookup-interval=3",
        ),
        ("IPA_COREOS_IP_OPTIONS", "ip=dhcp rd.neednet=1", ENVIRONMENT),
        ("IPA_COREOS_COPY_NETWORK", "1", ENVIRONMENT),
        ("IPA_DEFAULT_HOSTNAME", "node7", ENVIRONMENT),
        ("HTTP_PROXY", "http://proxy.example:3128", ENVIRONMENT),
        ("NO_PROXY", ".example,192.0.2.0/24", ENVIRONMENT),
    ] {
        assert_eq!(of(key), format!("{value} ({origin})"), "{key}");
    }
    // The unit gives no URL of the inspector, but the image configures collectors. So the
    // agent posts the inventory to the inspection API of Ironic itself.
    let url = |host: &str| format!("https://{host}:6385/v1/continue_inspection");
    let urls = ["192.0.2.5", "192.0.2.6"].map(url);
    assert_eq!(
        settings.params.inspection_urls(),
        Some(ServiceUrls::Urls(urls.into()))
    );
    assert_eq!(
        settings.params.warnings,
        ["environment of the agent container: IPA_OTHER: the agent has no such setting; ignored"]
    );
}

#[test]
fn files_of_the_host_are_ignored_with_a_warning() {
    let container = Container::new(OF_UNIT);
    for path in ["landfall/a.conf", "ironic-python-agent/zz.conf"] {
        let text = format!("[DEFAULT]\n# {path}\ninsecure = False\n");
        container.add(&format!("mnt/coreos/etc/{path}"), &text);
    }
    let settings = container.settings(&[], "");
    assert!(*settings.params.insecure);
    let ignored = "of the host is ignored: expected the settings in the agent container -- mount the file into /etc/ironic-python-agent";
    assert_eq!(
        settings.params.warnings,
        [
            format!("/etc/landfall/a.conf {ignored}"),
            format!("/etc/ironic-python-agent/zz.conf {ignored}"),
        ]
    );
}

#[test]
fn files_that_the_settings_name_stay_within_reach() {
    let container = Container::new(OF_UNIT);
    container.add("etc/landfall/ca.pem", "authority");
    container.add("etc/landfall/key.pem", "key");
    let host = container.host.display().to_string();
    container.add(
        "etc/landfall/site.conf",
        &format!(
            "[DEFAULT]\ncafile = /etc/landfall/ca.pem\ncertfile = {host}/etc/client.pem\n\
             keyfile = /etc/landfall/../landfall/key.pem\n\
             tls_cert_file = /etc/none.pem\ntls_key_file = /etc/none.key\n"
        ),
    );
    // The host has another file at this path. The agent must not read that one.
    container.add("mnt/coreos/etc/none.pem", "of the host");
    let params = container.settings(&[], "").params;
    let copy = |path: &str| Some(format!("/run/landfall/container{path}"));
    assert_eq!(params.cafile.value, copy("/etc/landfall/ca.pem"));
    assert_eq!(params.certfile.value.as_deref(), Some("/etc/client.pem"));
    assert_eq!(params.keyfile.value, copy("/etc/landfall/landfall/key.pem"));
    assert_eq!(params.tls_cert_file.value, copy("/etc/none.pem"));
    let fault = "No such file or directory (os error 2)";
    assert_eq!(
        params.warnings,
        [
            format!("cannot read /etc/none.pem in the agent container: {fault}"),
            format!("cannot read /etc/none.key in the agent container: {fault}"),
        ]
    );

    let state = tempfile::tempdir().unwrap();
    assert_eq!(container.parts(&[]).write_copies(state.path()), [""; 0]);
    let text = |path: &str| fs::read_to_string(state.path().join(path)).unwrap();
    assert_eq!(text("container/etc/landfall/ca.pem"), "authority");
    assert_eq!(text("container/etc/landfall/landfall/key.pem"), "key");
}

#[test]
fn authorities_of_the_image_are_trusted_too() {
    let container = Container::new(OF_UNIT);
    assert!(container.settings(&[], "").authorities().is_empty());
    container.add(AUTHORITIES, "PEM");
    let settings = container.settings(&[], "");
    assert_eq!(settings.authorities(), [b"PEM"]);
}
