//! Issues the tokens of the container registry, as the servers of public registries do:
//! a signed JSON Web Token for every client that knows the secret
//! (<https://distribution.github.io/distribution/spec/auth/jwt/>).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, anyhow};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::get;
use axum::{Json, Router};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use landfall_tests::journal::{Journal, Source};
use landfall_tests::lab::Lab;
use rcgen::{CertificateParams, KeyPair};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The name of the registry, and of the server that issues its tokens.
pub(super) const SERVICE: &str = "lab";
/// The password that a client needs for a token. The user's name does not matter, as
/// with the pre-shared secrets of Ironic.
pub(super) const SECRET: &str = "a-pull-secret-of-the-lab";

/// The repository to which a token gives access. Kernel, ramdisk and image are in it.
pub(super) const REPOSITORY: &str = "landfall/lab";

/// How long a token is valid: shorter than a scenario.
const VALID: Duration = Duration::from_secs(300);

/// The server. It ends when this is dropped.
pub(super) struct Tokens {
    task: JoinHandle<()>,
    /// The PEM file of the certificate that the registry verifies tokens with.
    pub(super) certificate: PathBuf,
}

impl Drop for Tokens {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Signer {
    key: EcdsaKeyPair,
    /// The certificate, in base64 of DER.
    certificate: String,
    journal: Journal,
}

impl Tokens {
    pub(super) async fn start(lab: &Lab, address: SocketAddr) -> Result<Self> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::default().self_signed(&key)?;
        let file = lab.path("registry-tokens.pem");
        std::fs::write(&file, certificate.pem())?;
        let signing = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let signer = Signer {
            key: EcdsaKeyPair::from_pkcs8(signing, &key.serialize_der(), &SystemRandom::new())
                .map_err(|error| anyhow!("the key of the tokens: {error}"))?,
            certificate: BASE64_STANDARD.encode(certificate.der()),
            journal: lab.journal.clone(),
        };
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("listening on {address}"))?;
        let routes = Router::new()
            .route("/token", get(answer))
            .with_state(Arc::new(signer));
        let task = tokio::spawn(async move {
            // An error here means that the listener failed. Then the requests fail,
            // too.
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self {
            task,
            certificate: file,
        })
    }
}

async fn answer(
    State(signer): State<Arc<Signer>>,
    headers: HeaderMap,
) -> Result<Json<Value>, StatusCode> {
    let known = headers.get(header::AUTHORIZATION).is_some_and(|given| {
        let given = given
            .to_str()
            .ok()
            .and_then(|text| text.strip_prefix("Basic "));
        let text = given.and_then(|text| BASE64_STANDARD.decode(text).ok());
        text.is_some_and(|text| text.ends_with(format!(":{SECRET}").as_bytes()))
    });
    let text = if known { "a token" } else { "no token" };
    signer
        .journal
        .record(Source::Images, format!("registry: {text}"));
    if !known {
        return Err(StatusCode::UNAUTHORIZED);
    }
    let token = signer
        .token()
        .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(Json(json!({"token": token, "expires_in": VALID.as_secs()})))
}

impl Signer {
    fn token(&self) -> Result<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let header = json!({"typ": "JWT", "alg": "ES256", "x5c": [self.certificate]});
        let claims = json!({
            "iss": SERVICE, "aud": SERVICE, "sub": "lab", "jti": "lab",
            "iat": now.as_secs(), "nbf": now.as_secs() - 60, "exp": (now + VALID).as_secs(),
            "access": [{"type": "repository", "name": REPOSITORY, "actions": ["pull", "push"]}],
        });
        let [header, claims] =
            [header, claims].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part.to_string()));
        let signed = format!("{header}.{claims}");
        let signature = self
            .key
            .sign(&SystemRandom::new(), signed.as_bytes())
            .map_err(|_| anyhow!("signing a token"))?;
        let signature = BASE64_URL_SAFE_NO_PAD.encode(signature);
        Ok(format!("{signed}.{signature}"))
    }
}
