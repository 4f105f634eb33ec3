//! Turns the kernel arguments `coreos.inst.*` into the options of an installation,
//! in the same way as coreos-installer's boot service turns them into its command
//! line.

use std::path::PathBuf;

use landfall_boot_params::{CoreosInst, IgnitionPlace};
use landfall_report::failure::{Failure, Result};

use crate::options::{FetchRetries, InstallOptions};

impl InstallOptions {
    /// The options that the kernel command line sets. Servers are retried forever.
    ///
    /// # Errors
    /// If the kernel command line has a fault. The error lists all faults.
    pub fn from_boot_line(line: &CoreosInst) -> Result<Self> {
        if !line.faults.is_empty() {
            return Err(Failure::invalid_params(line.faults.join("; ")));
        }
        let (ignition_url, ignition_file) = match &line.ignition_url {
            Some(IgnitionPlace::Url(url)) => (Some(url.clone()), None),
            Some(IgnitionPlace::File(path)) => (None, Some(PathBuf::from(path))),
            None => (None, None),
        };
        Ok(Self {
            dest_device: line.install_dev.as_ref().map(PathBuf::from),
            image_url: line.image_url.iter().cloned().collect(),
            image_digest: line.image_digest.clone(),
            stream: line.stream.clone(),
            // The installer of RHCOS 4.1 to 4.4 verified nothing, and installed only the
            // image that its command line named.
            insecure: line.insecure || (line.legacy && line.image_url.is_some()),
            ignition_url,
            ignition_file,
            ignition_hash: line.ignition_hash.clone(),
            // The boot service has always allowed http for a URL on the kernel
            // command line. A config file needs its own option for that.
            insecure_ignition: matches!(line.ignition_url, Some(IgnitionPlace::Url(_))),
            platform: line.platform_id.clone(),
            save_partlabel: words(&line.save_partlabel),
            save_partindex: words(&line.save_partindex),
            fetch_retries: Some(FetchRetries::Infinite),
            ..Self::default()
        })
    }
}

fn words(list: &Option<String>) -> Vec<String> {
    let words = list.iter().flat_map(|list| list.split(','));
    words.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use landfall_boot_params::CommandLine;
    use landfall_boot_params::digest::Digest;
    use landfall_report::failure::Class;

    use super::*;

    const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

    fn read(line: &str) -> Result<InstallOptions> {
        let line = CommandLine::parse(line);
        InstallOptions::from_boot_line(&CoreosInst::from_command_line(&line))
    }

    #[test]
    fn a_line_becomes_options() {
        let line = format!(
            "coreos.inst.install_dev=sda coreos.inst.image_url=http://192.0.2.1/a.raw.gz \
             coreos.inst.ignition_url=http://192.0.2.1/w.ign coreos.inst.platform_id=qemu \
             coreos.inst.save_partlabel=data*,log coreos.inst.save_partindex=5-,2 \
             landfall.coreos.inst.image_digest=sha256:{ZEROS} \
             landfall.coreos.inst.ignition_hash=sha256-{ZEROS}"
        );
        assert_eq!(
            read(&line).unwrap(),
            InstallOptions {
                dest_device: Some("/dev/sda".into()),
                image_url: vec!["http://192.0.2.1/a.raw.gz".into()],
                image_digest: Some(format!("sha256:{ZEROS}").parse().unwrap()),
                ignition_url: Some("http://192.0.2.1/w.ign".into()),
                ignition_hash: Some(Digest::from_ignition(&format!("sha256-{ZEROS}")).unwrap()),
                insecure_ignition: true,
                platform: Some("qemu".into()),
                save_partlabel: vec!["data*".into(), "log".into()],
                save_partindex: vec!["5-".into(), "2".into()],
                fetch_retries: Some(FetchRetries::Infinite),
                ..InstallOptions::default()
            }
        );
        let file = read("coreos.inst.install_dev=a coreos.inst.ignition_url=/etc/w.ign").unwrap();
        assert_eq!(file.ignition_file, Some("/etc/w.ign".into()));
    }

    #[test]
    fn only_an_explicit_argument_allows_an_unverified_image() {
        for (line, insecure) in [
            ("coreos.inst.install_dev=sda", false),
            ("coreos.inst.install_dev=sda coreos.inst.insecure", true),
            ("coreos.inst.install_dev=sda coreos.inst.insecure=0", false),
            // A command line for the installer of RHCOS 4.1 to 4.4, which verified no
            // image.
            (
                "coreos.inst=yes coreos.inst.install_dev=sda coreos.inst.image_url=http://h/a",
                true,
            ),
            // The command line names no image, so the agent verifies the image that it
            // finds elsewhere: through a config file, on the boot medium or in a stream.
            ("coreos.inst=yes coreos.inst.install_dev=sda", false),
        ] {
            assert_eq!(read(line).unwrap().insecure, insecure, "{line}");
        }
    }

    /// A URL on the kernel command line needs no TLS; that does not extend to the
    /// URL in a config file.
    #[test]
    fn a_line_speaks_for_its_own_config_alone() {
        const DISK: &str = "coreos.inst.install_dev=sda";
        let own = format!("{DISK} coreos.inst.ignition_url=http://h/w.ign");
        assert!(read(&own).unwrap().insecure_ignition);
        let file = || InstallOptions::from_config("ignition-url: http://h/w.ign").unwrap();
        let both = read(DISK).unwrap().over(file());
        assert!(!both.insecure_ignition);
        let skipped = format!("{DISK} coreos.inst.ignition_url=skip");
        assert!(!read(&skipped).unwrap().over(file()).insecure_ignition);
    }

    #[test]
    fn all_faults_are_reported_at_once() {
        let line =
            "coreos.inst=yes coreos.inst.image_url=x landfall.coreos.inst.image_digest=sha256:1";
        let failure = read(line).unwrap_err();
        for text in [
            "coreos.inst.install_dev",
            "coreos.inst.image_url: expected",
            "landfall.coreos.inst.image_digest: ",
        ] {
            assert!(failure.details.contains(text), "{failure}");
        }
        assert_eq!(failure.class, Class::InvalidCommandParamsError);
    }
}
