//! `coreos.inst.*`: an installation that the kernel command line itself requests,
//! without a provisioning service.
//!
//! Names and meanings are those of coreos-installer's current boot service, and of the
//! older installer ISO of RHCOS 4.1 to 4.4, which required `coreos.inst=yes` and a bare
//! disk name. A value that cannot be used is a fault and does not fall back to a default,
//! because a typo must not install another system.

mod reader;

use self::reader::Reader;
use crate::cmdline::CommandLine;
use crate::digest::Digest;
use crate::shown::without_secrets;

/// Prefix of all arguments that coreos-installer has, except [`LEGACY`].
const PREFIX: &str = "coreos.inst.";
/// Prefix of Landfall's own arguments, which coreos-installer does not have.
pub(crate) const OWN_PREFIX: &str = "landfall.coreos.inst.";

const LEGACY: &str = "coreos.inst";
const INSTALL_DEV: &str = "coreos.inst.install_dev";
const IMAGE_URL: &str = "coreos.inst.image_url";
const IGNITION_URL: &str = "coreos.inst.ignition_url";
const PLATFORM_ID: &str = "coreos.inst.platform_id";
const STREAM: &str = "coreos.inst.stream";
const SAVE_PARTLABEL: &str = "coreos.inst.save_partlabel";
const SAVE_PARTINDEX: &str = "coreos.inst.save_partindex";
const INSECURE: &str = "coreos.inst.insecure";
const SECURE_IPL: &str = "coreos.inst.secure_ipl";
/// The value of [`IGNITION_URL`] for a system without an Ignition config.
const SKIP: &str = "skip";
const SKIP_REBOOT: &str = "coreos.inst.skip_reboot";
const SKIP_MEDIA_CHECK: &str = "coreos.inst.skip_media_check";
const IMAGE_DIGEST: &str = "landfall.coreos.inst.image_digest";
const IGNITION_HASH: &str = "landfall.coreos.inst.ignition_hash";

/// All arguments that this module reads.
pub const KNOWN: &[&str] = &[
    LEGACY,
    INSTALL_DEV,
    IMAGE_URL,
    IGNITION_URL,
    PLATFORM_ID,
    STREAM,
    SAVE_PARTLABEL,
    SAVE_PARTINDEX,
    INSECURE,
    SECURE_IPL,
    SKIP_REBOOT,
    SKIP_MEDIA_CHECK,
    IMAGE_DIGEST,
    IGNITION_HASH,
];

/// Arguments that the old installer did not have. A command line that contains one of
/// these arguments is for the current installer, which ignores `coreos.inst=yes` and
/// verifies what it installs.
const CURRENT_ONLY: [&str; 5] = [
    PLATFORM_ID,
    STREAM,
    SAVE_PARTLABEL,
    SAVE_PARTINDEX,
    INSECURE,
];

/// At most this many unknown names are reported.
const MAX_UNKNOWN: usize = 100;

/// The installation that a command line requests. Lists and names are stored as text,
/// because the installation itself parses them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreosInst {
    /// `coreos.inst=yes`: the command line is for the installer of RHCOS 4.1 to
    /// 4.4, which verified nothing.
    pub legacy: bool,
    /// The disk to install to, as an absolute path.
    pub install_dev: Option<String>,
    /// True if the command line says what to install but names no disk, so that root
    /// device hints choose the disk.
    pub uses_hints: bool,
    pub image_url: Option<String>,
    /// The Ignition config; `None` also for `skip`.
    pub ignition_url: Option<IgnitionPlace>,
    /// The value for the installed system's `ignition.platform.id`.
    pub platform_id: Option<String>,
    /// The stream to take the image from if no URL is given.
    pub stream: Option<String>,
    /// Labels of partitions to keep: globs joined by commas.
    pub save_partlabel: Option<String>,
    /// Numbers of partitions to keep: `n`, `a-b`, `a-`, `-b` joined by commas.
    pub save_partindex: Option<String>,
    /// Install without verifying the image's signature.
    pub insecure: bool,
    /// Do not reboot after the installation.
    pub skip_reboot: bool,
    pub image_digest: Option<Digest>,
    pub ignition_hash: Option<Digest>,
    /// Everything that makes the installation impossible.
    pub faults: Vec<String>,
    /// Warnings about arguments that are ignored, or that are read differently from how
    /// they look.
    pub warnings: Vec<String>,
    /// Messages that these arguments install nothing. They do not apply if a config file
    /// requests an installation.
    pub remarks: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IgnitionPlace {
    /// On a server; plain HTTP is allowed.
    Url(String),
    /// A file in the ramdisk, as an absolute path.
    File(String),
}

impl IgnitionPlace {
    /// The URL without its secrets, or the path.
    pub fn shown(&self) -> String {
        match self {
            Self::Url(url) => without_secrets(url).into_owned(),
            Self::File(path) => path.clone(),
        }
    }
}

impl CoreosInst {
    /// Reads a command line. If an argument is given several times, the last one
    /// takes effect, as in coreos-installer: users override templates this way.
    pub fn from_command_line(line: &CommandLine) -> CoreosInst {
        Self::read(line, false)
    }

    /// Reads the command line of a host whose root device hints are known. The hints
    /// choose the disk if the command line says what to install but names no disk.
    pub fn with_hinted_disk(line: &CommandLine) -> CoreosInst {
        Self::read(line, true)
    }

    fn read(line: &CommandLine, has_hints: bool) -> CoreosInst {
        let mut reader = Reader::new(line);
        let mut inst = CoreosInst {
            legacy: reader.legacy(),
            install_dev: reader.text(INSTALL_DEV).map(disk_path),
            uses_hints: false,
            image_url: reader.url(IMAGE_URL),
            ignition_url: reader.ignition(),
            platform_id: reader.text(PLATFORM_ID),
            stream: reader.text(STREAM),
            save_partlabel: reader.text(SAVE_PARTLABEL),
            save_partindex: reader.text(SAVE_PARTINDEX),
            insecure: reader.switch(INSECURE),
            skip_reboot: reader.switch(SKIP_REBOOT),
            image_digest: reader.digest(IMAGE_DIGEST, str::parse),
            ignition_hash: reader.digest(IGNITION_HASH, Digest::from_ignition),
            faults: Vec::new(),
            warnings: Vec::new(),
            remarks: Vec::new(),
        };
        let names_system = [IMAGE_URL, STREAM, IGNITION_URL].iter().any(|key| {
            let token = line.last(key);
            token.is_some_and(|token| !matches!(token.value_or_empty(), "" | SKIP))
        });
        inst.uses_hints = has_hints && names_system && inst.install_dev.is_none();
        if reader.switch(SECURE_IPL) {
            reader.faults.push(format!(
                "{SECURE_IPL}: only s390x machines have a secure IPL -- remove the argument"
            ));
        }
        if line.last(SKIP_MEDIA_CHECK).is_some() {
            reader.warnings.push(format!(
                "{SKIP_MEDIA_CHECK}: ignored; this installer does not check media"
            ));
        }
        reader.warn_of_repeats();
        let unknown = reader.unknown();
        match inst.uses_hints {
            // With hints, an unknown name is a fault: a misspelt argument may name the
            // disk, and the hints may choose another one.
            true => {
                let faults = unknown
                    .into_iter()
                    .map(|text| text.replace("; ignored", ""));
                reader.faults.extend(faults);
            }
            false => reader.warnings.extend(unknown),
        }
        (inst.faults, inst.warnings) = (reader.faults, reader.warnings);
        inst.check_together(line, has_hints);
        inst
    }

    /// True if the command line requests an installation, even an impossible one.
    pub fn is_wanted(&self) -> bool {
        self.legacy || self.install_dev.is_some() || self.uses_hints
    }

    /// Every argument that is set, with its value. Secrets in URLs are masked.
    pub fn list(&self) -> Vec<(&'static str, String)> {
        let switch = |on: bool| on.then(|| "1".to_owned());
        let url = |url: &String| without_secrets(url).into_owned();
        [
            (LEGACY, switch(self.legacy)),
            (INSTALL_DEV, self.install_dev.clone()),
            (IMAGE_URL, self.image_url.as_ref().map(url)),
            (
                IGNITION_URL,
                self.ignition_url.as_ref().map(IgnitionPlace::shown),
            ),
            (PLATFORM_ID, self.platform_id.clone()),
            (STREAM, self.stream.clone()),
            (SAVE_PARTLABEL, self.save_partlabel.clone()),
            (SAVE_PARTINDEX, self.save_partindex.clone()),
            (INSECURE, switch(self.insecure)),
            (SKIP_REBOOT, switch(self.skip_reboot)),
            (
                IMAGE_DIGEST,
                self.image_digest.as_ref().map(Digest::to_string),
            ),
            (
                IGNITION_HASH,
                self.ignition_hash.as_ref().map(Digest::to_ignition),
            ),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
        .collect()
    }

    fn check_together(&mut self, line: &CommandLine, has_hints: bool) {
        if !self.is_wanted() {
            // Without this message, the machine would continue without reporting why it
            // installs nothing.
            let given = KNOWN.iter().find(|key| line.last(key).is_some());
            if let Some(key) = given.filter(|_| self.faults.is_empty()) {
                match has_hints {
                    true => self.remarks.push(format!(
                        "{key}: nothing is installed without {INSTALL_DEV}, {IMAGE_URL}, {STREAM} or a config in {IGNITION_URL}"
                    )),
                    false => self.remarks.push(format!(
                        "{key}: nothing is installed without {INSTALL_DEV} or root device hints in the ramdisk"
                    )),
                }
            }
            return;
        }
        if self.install_dev.is_none() && self.legacy {
            self.faults.push(format!(
                "{LEGACY}=yes: expected {INSTALL_DEV}=DISK as well, found none"
            ));
        }
        if self.image_url.is_some() && self.stream.is_some() {
            self.faults.push(format!(
                "{IMAGE_URL} and {STREAM}: expected one of them, found both"
            ));
        }
        if self.ignition_hash.is_some() && self.ignition_url.is_none() {
            self.faults.push(format!(
                "{IGNITION_HASH}: expected {IGNITION_URL} as well, found none"
            ));
        }
        // `skip` means that no config is wanted.
        let is_skipped = line
            .last(IGNITION_URL)
            .is_some_and(|token| token.value_or_empty() == SKIP);
        if self.ignition_url.is_none() && !is_skipped && self.faults.is_empty() {
            self.warnings.push(format!(
                "{IGNITION_URL}: none given; the installed system will have no Ignition config"
            ));
        }
    }
}

/// Turns a name such as `sda` into `/dev/sda`. The old installer accepted only names,
/// and the current installer still accepts them.
fn disk_path(text: String) -> String {
    match text.starts_with('/') {
        true => text,
        false => format!("/dev/{text}"),
    }
}

#[cfg(test)]
mod tests;
