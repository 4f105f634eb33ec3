//! Debian's container registry, with the kernel and the ramdisk of the release and an
//! image of CoreOS. The node has their `oci://` URLs.
//!
//! The registry answers as large public registries do: TLS, a token for each request
//! ([`super::registry_tokens`]), and for each blob a redirect to a server that accepts
//! no token, here the image server.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use landfall_tests::artifacts::{self, Packing};
use landfall_tests::image_server::{ImageServer, hex};
use landfall_tests::lab::{HOST_V4, Lab};
use landfall_tests::program;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;

use super::ports::IMAGES_TLS_PORT;
use super::registry_tokens::{REPOSITORY, SECRET, SERVICE, Tokens};
use super::service::Service;
use crate::tls_front::Authority;

/// The ports for clients, with TLS.
const PORT: u16 = 5000;
const TOKENS_PORT: u16 = 5001;
/// The addresses of the plain servers behind these two ports.
const BEHIND: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 5002);
const TOKENS_BEHIND: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 5003);

/// The names in the release's archive, and the tags in the registry.
pub(super) const ARTEFACTS: [&str; 2] = ["kernel", "ramdisk"];
/// The tag of the image.
pub(super) const IMAGE: &str = "coreos";

/// How the image is packed.
const PACKING: Packing = Packing::Zst;

/// The file with Ironic's own secrets for registries.
const SECRETS_FILE: &str = "registries.json";

/// The registry. It ends when this is dropped.
pub(super) struct Registry {
    _service: Service,
    _tokens: Tokens,
    /// The name of the image's blob on the image server.
    blob: String,
}

pub(super) fn tls_fronts() -> [(u16, SocketAddr); 2] {
    [(PORT, BEHIND), (TOKENS_PORT, TOKENS_BEHIND)]
}

/// Ironic's section oci.
pub(super) fn settings(lab: &Lab) -> String {
    format!(
        "authentication_config = {}\nverify_ca = {}",
        lab.path(SECRETS_FILE).display(),
        lab.path("authority.pem").display()
    )
}

impl Registry {
    /// Starts the registry, and pushes the kernel, the ramdisk and the image. `blobs`
    /// is the folder whose files the image server serves.
    pub(super) async fn start(lab: &Lab, authority: &Authority, blobs: &Path) -> Result<Self> {
        let tokens = Tokens::start(lab, TOKENS_BEHIND).await?;
        // Ironic looks up its secret by the address of the server that issues the
        // tokens, not by the address of the registry.
        let secrets = json!({"auths": {format!("{HOST_V4}:{TOKENS_PORT}"): {"auth": SECRET}}});
        std::fs::write(lab.path(SECRETS_FILE), secrets.to_string())?;
        let file = lab.path("registry.yml");
        let bundle = tokens.certificate.display();
        // The registry appends the path of a blob below `rootdirectory` to `baseurl`.
        let configuration = format!(
            "version: 0.1\n\
             storage:\n\
             \x20 filesystem: {{rootdirectory: {}}}\n\
             http: {{addr: '{BEHIND}', host: 'https://{HOST_V4}:{PORT}'}}\n\
             auth:\n\
             \x20 token:\n\
             \x20   realm: https://{HOST_V4}:{TOKENS_PORT}/token\n\
             \x20   service: {SERVICE}\n\
             \x20   issuer: {SERVICE}\n\
             \x20   rootcertbundle: {bundle}\n\
             middleware:\n\
             \x20 storage:\n\
             \x20   - name: redirect\n\
             \x20     options: {{baseurl: 'https://{HOST_V4}:{IMAGES_TLS_PORT}/'}}\n",
            blobs.display()
        );
        std::fs::write(&file, configuration)?;
        let program = artifacts::registry()?.display().to_string();
        let file = file.display().to_string();
        let mut service = Service::start(lab, "registry", &program, &["serve", &file], None)?;
        service
            .answers(async || Ok(TcpStream::connect(BEHIND).await.map(drop)?))
            .await?;
        let archive = artifacts::ramdisk_artefacts()?;
        for name in ARTEFACTS {
            let source = format!("oci-archive:{}:{name}", archive.display());
            push(lab, authority, &source, name).await?;
        }
        let (layout, digest) = image_layout(lab)?;
        push(
            lab,
            authority,
            &format!("oci:{}:{IMAGE}", layout.display()),
            IMAGE,
        )
        .await?;
        Ok(Self {
            _service: service,
            _tokens: tokens,
            blob: format!("docker/registry/v2/blobs/sha256/{digest:.2}/{digest}/data"),
        })
    }

    /// Checks that the host has fetched the image from the server to which the registry
    /// redirected it, and has not sent the token to that server.
    pub(super) fn check_redirection(&self, images: &ImageServer) -> Result<()> {
        let requests = images.requests(&self.blob);
        ensure!(!requests.is_empty(), "no request for {}", self.blob);
        for request in requests {
            ensure!(
                !request.authorized,
                "the token went to the server of the blobs: {request:?}"
            );
        }
        Ok(())
    }
}

async fn push(lab: &Lab, authority: &Authority, source: &str, name: &str) -> Result<()> {
    // skopeo trusts each `*.crt` of a folder.
    let trusted = lab.path("registry-certificates");
    std::fs::create_dir_all(&trusted)?;
    std::fs::copy(&authority.file, trusted.join("authority.crt"))?;
    let trusted = trusted.display().to_string();
    let target = format!("docker://{HOST_V4}:{PORT}/{REPOSITORY}:{name}");
    let digest = digest_file(lab, name).display().to_string();
    let credentials = format!("lab:{SECRET}");
    let arguments = [
        "copy",
        "--quiet",
        "--preserve-digests",
        "--dest-cert-dir",
        &trusted,
        "--dest-creds",
        &credentials,
        "--digestfile",
        &digest,
        source,
        &target,
    ];
    program::run("skopeo", &arguments).await.map(drop)
}

/// Writes an OCI layout with the image as an artefact of one blob, as Ironic's
/// documentation requires it (doc/source/admin/oci-container-registry.rst). Returns the
/// layout's path and the blob's SHA-256.
fn image_layout(lab: &Lab) -> Result<(PathBuf, String)> {
    let layout = lab.path("image-layout");
    let blobs = layout.join("blobs/sha256");
    std::fs::create_dir_all(&blobs)?;
    let add = |content: &[u8], media_type: &str| -> Result<Value> {
        let digest = hex(&Sha256::digest(content));
        std::fs::write(blobs.join(&digest), content)?;
        Ok(json!({
            "mediaType": media_type,
            "digest": format!("sha256:{digest}"),
            "size": content.len(),
        }))
    };
    let image = std::fs::read(artifacts::coreos_image(PACKING)?)?;
    let layer = add(&image, "application/zstd")?;
    let manifest_type = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": manifest_type,
        "config": add(b"{}", "application/vnd.oci.empty.v1+json")?,
        "layers": [layer],
    });
    let mut described = add(manifest.to_string().as_bytes(), manifest_type)?;
    described["annotations"] = json!({"org.opencontainers.image.ref.name": IMAGE});
    let index = json!({"schemaVersion": 2, "manifests": [described]});
    std::fs::write(layout.join("index.json"), index.to_string())?;
    std::fs::write(
        layout.join("oci-layout"),
        r#"{"imageLayoutVersion":"1.0.0"}"#,
    )?;
    let digest = layer["digest"].as_str().unwrap_or_default();
    let digest = digest.trim_start_matches("sha256:").to_owned();
    Ok((layout, digest))
}

/// The URL of an artefact for Ironic, by the digest of its manifest: Ironic accepts no
/// tag.
pub(super) fn url(lab: &Lab, name: &str) -> Result<String> {
    let file = digest_file(lab, name);
    let digest = std::fs::read_to_string(&file)
        .with_context(|| format!("reading {} (skopeo writes it)", file.display()))?;
    Ok(format!(
        "oci://{HOST_V4}:{PORT}/{REPOSITORY}@{}",
        digest.trim()
    ))
}

fn digest_file(lab: &Lab, name: &str) -> PathBuf {
    lab.path(&format!("{name}.digest"))
}
