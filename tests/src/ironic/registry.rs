//! Debian's container registry, with the kernel and the ramdisk of the release, which
//! Ironic fetches by `oci://`.

use anyhow::{Context as _, Result};
use tokio::net::TcpStream;

use super::services::Service;
use crate::artifacts;
use crate::lab::{HOST_V4, Lab};
use crate::program;

const PORT: u16 = 5000;
/// The names in the release's archive, and the tags in the registry.
pub(super) const ARTEFACTS: [&str; 2] = ["kernel", "ramdisk"];
const REPOSITORY: &str = "landfall/ipa";

/// The registry. It ends when this is dropped.
pub(super) struct Registry(#[allow(dead_code, reason = "ends the process")] Service);

impl Registry {
    /// Starts it and pushes both artefacts.
    pub(super) async fn start(lab: &Lab) -> Result<Self> {
        let (data, file) = (lab.path("registry"), lab.path("registry.yml"));
        let configuration = format!(
            "version: 0.1\n\
             storage: {{filesystem: {{rootdirectory: {}}}}}\n\
             http: {{addr: '{HOST_V4}:{PORT}'}}\n",
            data.display()
        );
        std::fs::write(&file, configuration)?;
        let program = artifacts::registry()?.display().to_string();
        let file = file.display().to_string();
        let mut service = Service::start(lab, "registry", &program, &["serve", &file], None)?;
        service
            .answers(async || Ok(TcpStream::connect((HOST_V4, PORT)).await.map(drop)?))
            .await?;
        let archive = artifacts::ramdisk_artefacts()?;
        for name in ARTEFACTS {
            let source = format!("oci-archive:{}:{name}", archive.display());
            let target = format!("docker://{HOST_V4}:{PORT}/{REPOSITORY}:{name}");
            let digest = digest_file(lab, name).display().to_string();
            let arguments = [
                "copy",
                "--quiet",
                "--preserve-digests",
                "--dest-tls-verify=false",
                "--digestfile",
                &digest,
                &source,
                &target,
            ];
            program::run("skopeo", &arguments).await?;
        }
        Ok(Self(service))
    }
}

/// The URL of an artefact for Ironic, by the digest of its manifest: Ironic takes no tag.
pub(super) fn url(lab: &Lab, name: &str) -> Result<String> {
    let file = digest_file(lab, name);
    let digest = std::fs::read_to_string(&file)
        .with_context(|| format!("reading {} (skopeo writes it)", file.display()))?;
    Ok(format!(
        "oci://{HOST_V4}:{PORT}/{REPOSITORY}@{}",
        digest.trim()
    ))
}

fn digest_file(lab: &Lab, name: &str) -> std::path::PathBuf {
    lab.path(&format!("{name}.digest"))
}
