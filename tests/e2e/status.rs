//! What an operator sees of a host that waits for Ironic: the screen of its BMC, the
//! block on its serial console, and its status pages.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use landfall_tests::installation::BOOT;
use landfall_tests::site::{MAC, Network, Plan};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::host_test;

/// The first block comes after 15 s, and a busy machine is slow.
const BLOCK: Duration = Duration::from_secs(90);

/// The answer to `GET path`, as text.
async fn get(path: &str, accept: &str) -> Result<String> {
    let mut agent = TcpStream::connect("192.0.2.10:9999").await?;
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: x\r\naccept: {accept}\r\nconnection: close\r\n\r\n");
    agent.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    agent.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// No service answers at Ironic's address. The screen, the serial console and the status
/// pages name the cause and the remedy, and none of them shows the token.
#[test]
fn a_host_that_waits_shows_why() {
    host_test("a_host_that_waits_shows_why", async |lab| {
        let plan = Plan {
            network: Network::Given(
                "ip=192.0.2.10::192.0.2.1:24::52-54-00-c0-ff-01:none ipa-agent-token=S3CRET",
            ),
            ..Plan::default()
        };
        let site = plan.site(lab).await?;
        let mut guest = site.power_on(lab).await?;
        guest
            .console("TCP     FAILED: connection refused", BOOT)
            .await?;
        let block = guest.console("== status after", BLOCK).await?.text;
        ensure!(block.len() == 80, "{block:?}");
        guest.console("NOW     looking for", BLOCK).await?;
        let picture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../out/logs/status.png");
        // Above the agent's screen there still are the messages of the kernel.
        let memory = guest.vga_text(&picture).await?;
        let start = memory.rfind(" Landfall ").context("no status screen")?;
        let screen = memory[start..].to_owned();
        for expected in [
            " Landfall ",
            " NOW     looking for",
            MAC,
            "TCP     FAILED: connection refused",
            "-> the host answers, but nothing listens on this port",
        ] {
            ensure!(
                screen.contains(expected),
                "{expected:?} is not on the screen: {screen}"
            );
        }
        let json = get("/status.json", "*/*").await?;
        let (_, body) = json.split_once("\r\n\r\n").context("no body")?;
        let status: serde_json::Value = serde_json::from_str(body)?;
        let way = status["network"]["nics"][0]["way"]
            .as_array()
            .context("no way")?;
        let last = way.last().context("an empty way")?;
        ensure!(
            last["step"] == "TCP" && last["outcome"] == "failed",
            "{status:#}"
        );
        let page = get("/", "text/html").await?;
        ensure!(page.contains("connection refused"), "{page}");
        let metrics = get("/metrics", "*/*").await?;
        ensure!(
            metrics.contains("\nlandfall_service_answers 0\n"),
            "{metrics}"
        );
        let log = get("/log.txt", "*/*").await?;
        for text in [&screen, &json, &page, &metrics, &log] {
            ensure!(!text.contains("S3CRET"), "the token is shown: {text}");
        }
        guest.cut_power().await
    });
}
