//! The settings of this boot as typed values, each with its source.
//!
//! Later sources take precedence:
//!
//! - built-in defaults
//! - config.ign (its unit, and the defaults of OpenShift's image), or the environment
//!   of OpenShift's agent container
//! - kernel arguments
//! - `parameters.txt` of virtual media
//! - configuration files
//! - the form on a console
//! - at run time: mDNS, and Ironic's answer to the lookup

mod agent_container;
mod config_files;
mod embedded_hosts;
mod form_arguments;
mod ignition_parts;
mod lookup_config;
pub mod media;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use landfall_boot_params::cmdline::MAX_LENGTH;
use landfall_boot_params::{BootParams, CommandLine, NetArgs, Origin};
use landfall_ignition_config::GivenFile;
use landfall_network_plan::{Choice, Embedded, NetworkPlan};
use serde_json::Value;

pub use agent_container::ContainerParts;
pub use config_files::ConfigFiles;
pub use embedded_hosts::embedded_hosts;
pub use form_arguments::FormArguments;
pub use ignition_parts::{ConfigParser, IgnitionParts, UnusableConfig, keyfile_paths};

use crate::media::{Media, MediaText, Places, Wanted};

/// All settings of the agent.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The command line as tokens, for modules that parse their own arguments.
    pub command_line: CommandLine,
    pub params: BootParams,
    /// The host's network as Ironic describes it (`network_data.json`, not parsed yet),
    /// and the device on which the agent found it.
    pub network_data: Option<MediaText>,
    /// The part of the ramdisk with the settings of single hosts. The host is unknown
    /// until the agent has identified this machine by its NICs.
    pub embedded: Embedded,
    /// What CoreOS' tools have put into the ramdisk.
    pub ignition: IgnitionParts,
    /// What the agent has read in OpenShift's agent container.
    pub container: Option<ContainerParts>,
    /// What an operator has given in the form on a console. It overrides every source
    /// that is known before the network is configured.
    pub form: Option<FormArguments>,
}

impl Settings {
    /// The settings from the command line of the running kernel, and from the
    /// configuration files and the config.ign of this system.
    ///
    /// # Errors
    /// If /proc/cmdline cannot be read.
    pub fn of_this_boot() -> io::Result<Self> {
        Self::of_this_boot_with(None)
    }

    /// Like [`Self::of_this_boot`]. If there is an agent container, uses its
    /// configuration files and its environment in place of the configuration files and
    /// the config.ign of this system.
    ///
    /// # Errors
    /// If /proc/cmdline cannot be read.
    pub fn of_this_boot_with(container: Option<ContainerParts>) -> io::Result<Self> {
        let mut bytes = Vec::new();
        // Read one byte beyond the limit, so that the parser notices a truncated
        // line.
        File::open("/proc/cmdline")?
            .take(MAX_LENGTH as u64 + 1)
            .read_to_end(&mut bytes)?;
        let root = Path::new("/");
        // On the host of the container, Ignition itself has applied the config.
        let ignition = match &container {
            Some(_) => IgnitionParts::default(),
            None => IgnitionParts::of_system(root),
        };
        let line = CommandLine::parse_bytes(&bytes);
        let media = Media::default();
        Ok(Self::merged(line, media, root, ignition, container))
    }

    /// Merges these sources and the configuration files of the system with this root.
    fn merged(
        command_line: CommandLine,
        media: Media,
        root: &Path,
        ignition: IgnitionParts,
        container: Option<ContainerParts>,
    ) -> Self {
        let files = match &container {
            Some(container) => container.files(root),
            None => ConfigFiles::of_system(root),
        };
        Self::from_all(command_line, media, files, ignition, container)
    }

    /// Merges the settings of these sources by their precedence.
    pub fn from_sources(
        command_line: CommandLine,
        media: Media,
        files: ConfigFiles,
        ignition: IgnitionParts,
    ) -> Self {
        Self::from_all(command_line, media, files, ignition, None)
    }

    fn from_all(
        command_line: CommandLine,
        media: Media,
        files: ConfigFiles,
        ignition: IgnitionParts,
        container: Option<ContainerParts>,
    ) -> Self {
        let mut params = BootParams::default();
        ignition.apply(&mut params);
        if let Some(container) = &container {
            container.apply_environment(&mut params);
        }
        params.read_command_line(&command_line);
        let files = ignition.add_files(files);
        params.warnings.extend(media.warnings);
        if let Some(MediaText { text, device }) = &media.parameters {
            params.read_parameters(device, text);
        }
        params.warnings.extend(files.warnings);
        for file in &files.files {
            params.read_file(&file.origin(), &file.text);
        }
        if let Some(container) = &container {
            container.point_to_copies(&mut params);
        }
        params.check_together();
        Self {
            command_line,
            params,
            network_data: media.network_data,
            embedded: Embedded {
                keyfiles: ignition.keyfiles.clone(),
                ..Embedded::default()
            },
            ignition,
            container,
            form: None,
        }
    }

    /// The PEM files with certificates to trust in addition to those of the system,
    /// each with its source.
    pub fn files_of_authorities(&self) -> impl Iterator<Item = (&'static str, &GivenFile)> {
        let config = self.ignition.config.iter();
        let of_config = config.flat_map(|config| &config.authorities);
        let of_container = self.container.iter().flat_map(ContainerParts::authorities);
        of_config
            .map(|file| ("config.ign", file))
            .chain(of_container.map(|file| (agent_container::NAME, file)))
    }

    /// The contents of the files of [`Self::files_of_authorities`].
    pub fn authorities(&self) -> Vec<Vec<u8>> {
        let files = self.files_of_authorities();
        files.map(|(_, file)| file.content.clone()).collect()
    }

    /// Returns the settings with the part of the ramdisk that is for this machine.
    pub fn with_embedded(self, embedded: Embedded) -> Self {
        let embedded = Embedded {
            keyfiles: self.ignition.keyfiles.clone(),
            ..embedded
        };
        Self { embedded, ..self }
    }

    /// Returns the settings, changed by what an operator has given in the form. The
    /// network of the form replaces that of all other sources.
    pub fn with_form(mut self, form: Option<FormArguments>) -> Self {
        if let Some(form) = &form {
            self.command_line = form.replace_network_of(&self.command_line);
            self.params.read_command_line(&form.command_line());
            self.network_data = None;
        }
        Self { form, ..self }
    }

    /// The network of this boot. `args` are the network arguments of the command line,
    /// completed from the firmware's tables.
    pub fn network_choice(&self, args: &NetArgs) -> Choice {
        if self.form.is_some() {
            return Choice::on_console(&self.embedded, args);
        }
        let given = self.network_data.as_ref();
        let given = given.map(|found| found.text.as_str());
        Choice::for_boot(&self.embedded, given, args)
    }

    /// The network that this boot gets if an operator gives these arguments in the form,
    /// but without the network of the firmware's NVMe boot table (NBFT).
    pub fn plan_with(&self, form: &FormArguments) -> NetworkPlan {
        let line = form.replace_network_of(&self.command_line);
        let args = NetArgs::from_command_line(&line);
        Choice::on_console(&self.embedded, &args).plan
    }

    /// Adds the settings on virtual media. If the command line mentions virtual media,
    /// this function waits longer for them. Use it only in the ramdisk, because it copies
    /// the media's configuration files to /etc. `settled` returns true when the devices
    /// of the boot have their drivers.
    pub async fn with_virtual_media(self, settled: impl Fn() -> bool + Send + 'static) -> Self {
        let params = &self.params;
        let wanted = Wanted {
            virtual_media: params.is_virtual_media(),
            publisher: params.publisher_id.value.clone(),
            network_boot: params.boot_interface.is_some(),
            network_given: self.command_line.last("ip").is_some() || self.embedded.has_plan(),
            service_known: params.api_url.is_some() || params.inspection_callback_url.is_some(),
        };
        if !wanted.anything() {
            return self;
        }
        let media = media::read(wanted, Places::of_ramdisk(), settled).await;
        let embedded = self.embedded;
        Self::merged(
            self.command_line,
            media,
            Path::new("/"),
            self.ignition,
            self.container,
        )
        .with_embedded(embedded)
    }

    /// Applies `config` of a lookup answer, which overrides all settings of the boot.
    /// Returns the ignored options with the reason, one line each.
    pub fn apply_lookup_config(&mut self, config: &Value) -> Vec<String> {
        lookup_config::apply(&mut self.params, config)
    }

    /// Logs every setting that a source has given, with this source, and all warnings.
    pub fn report(&self) {
        for setting in self.params.list() {
            if *setting.origin != Origin::Default {
                tracing::info!("{} = {} ({})", setting.key, setting.value, setting.origin);
            }
        }
        if let Some(form) = &self.form {
            tracing::info!("the form on the console gives: {}", form.0);
        }
        if let Some(network) = &self.network_data {
            let (length, device) = (network.text.len(), &network.device);
            tracing::info!("network_data.json of {length} bytes on {device}");
        }
        landfall_parser_child::report_kept();
        self.ignition.report();
        let ignored = self.params.not_supported_yet();
        for warning in self.params.warnings.iter().chain(&ignored) {
            tracing::warn!("{warning}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use landfall_network_plan::{Document, EmbeddedHost, Source};

    use super::*;

    #[test]
    fn later_sources_win_and_are_named() {
        let line = CommandLine::parse(
            "boot_method=vmedia ipa-listen-port=1 ipa-lookup-timeout=1 ipa-disk-wait-delay=1 ipa-x=1",
        );
        let text = |text: &str| MediaText {
            text: text.to_owned(),
            device: "/dev/sr0".to_owned(),
        };
        let media = Media {
            parameters: Some(text("ipa-listen-port=2\nipa-lookup-timeout=2\n")),
            network_data: Some(text("{}")),
            warnings: vec!["of the media".to_owned()],
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.conf");
        std::fs::write(&path, "[DEFAULT]\nlisten_port = 3\nkeyfile = /k\n").unwrap();
        let mut files = ConfigFiles::default();
        files.add(&path).unwrap();

        let settings = Settings::from_sources(line, media, files, IgnitionParts::default());
        let listed = settings.params.list();
        let of = |key: &str| {
            let found = listed.iter().find(|setting| setting.key == key).unwrap();
            (found.value.clone(), found.origin.to_string())
        };
        let pair = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());
        assert_eq!(
            of("ipa-listen-port"),
            pair("3", &path.display().to_string())
        );
        assert_eq!(
            of("ipa-lookup-timeout"),
            pair("2", "parameters.txt on /dev/sr0")
        );
        assert_eq!(
            of("ipa-disk-wait-delay"),
            pair("1", "kernel argument ipa-disk-wait-delay=1")
        );
        assert_eq!(of("ipa-lldp-timeout"), pair("30", "default"));
        assert_eq!(settings.network_data.unwrap().text, "{}");
        assert_eq!(
            settings.params.warnings,
            [
                "ipa-x: unknown name; ignored",
                "of the media",
                "keyfile: expected certfile as well; no client certificate is used",
            ]
        );
    }

    /// If the operator corrects the plan of the ramdisk in the form, the installed system
    /// also gets the corrected network, because it gets the network of this [`Choice`].
    #[test]
    fn the_form_replaces_the_network_of_every_other_source() {
        let line = CommandLine::parse("ip=192.0.2.10::192.0.2.1:24::eth0:none");
        let media = Media {
            network_data: Some(MediaText {
                text: "{}".to_owned(),
                device: "/dev/sr0".to_owned(),
            }),
            ..Media::default()
        };
        let embedded = Embedded {
            host: Some(EmbeddedHost {
                host_name: Some("node7".to_owned()),
                macs: Vec::new(),
                nics: BTreeMap::new(),
                root_device_hints: None,
                document: Document::NmState("interfaces: [{name: eth0, type: ethernet}]".into()),
            }),
            hosts: 1,
            ..Embedded::default()
        };
        let files = ConfigFiles::default();
        let settings = Settings::from_sources(line, media, files, IgnitionParts::default())
            .with_embedded(embedded);
        let choice = |settings: &Settings| {
            settings.network_choice(&NetArgs::from_command_line(&settings.command_line))
        };
        assert_eq!(choice(&settings).source, Source::Embedded);
        let form = FormArguments("vlan=vlan7:eth0 ip=vlan7:auto".to_owned());
        let plan = settings.plan_with(&form);
        let settings = settings.with_form(Some(form));
        let found = choice(&settings);
        assert_eq!(found.source, Source::Console);
        assert_eq!(found.plan, plan);
        let names = found.plan.interfaces.iter();
        let names: Vec<_> = names.map(|one| one.matches.to_string()).collect();
        assert_eq!(names, ["eth0", "vlan7"]);
        assert_eq!(found.plan.host_name.as_deref(), Some("node7"));
    }
}
