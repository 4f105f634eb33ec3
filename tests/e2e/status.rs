//! What an operator sees of a host that waits for Ironic: the screen of its BMC, the
//! block on its serial console, and its status pages.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use landfall_documentation::events_schema::{EventsSchema, Form};
use landfall_tests::conductor::LookupFault;
use landfall_tests::installation::BOOT;
use landfall_tests::lab::Lab;
use landfall_tests::site::{MAC, Network, Plan};
use landfall_tests::vm::{Extra, Guest};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::host_test;

/// The time limit for a line of the status block on the serial console. The agent
/// prints the first block after 15 s, and a busy machine is slow.
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
/// pages name the machine, the cause and the remedy, and none of them shows the token.
#[test]
fn a_host_that_waits_shows_why() {
    host_test("a_host_that_waits_shows_why", async |lab| {
        let plan = Plan {
            network: Network::Given(
                "ip=192.0.2.10::192.0.2.1:24::52-54-00-c0-ff-01:none ipa-agent-token=S3CRET \
                 landfall.console.form=0",
            ),
            ..Plan::default()
        };
        let mut site = plan.site(lab).await?;
        site.machine.extras = vec![Extra::SerialNumber("LF4711")];
        let mut guest = site.power_on(lab).await?;
        guest
            .console("TCP     FAILED: connection refused", BOOT)
            .await?;
        let block = guest.console("== status after", BLOCK).await?.text;
        ensure!(block.len() == 80, "{block:?}");
        let machine = "QEMU Standard PC (Q35 + ICH9, 2009) | serial LF4711 | BIOS | ";
        guest.console(machine, BLOCK).await?;
        guest.console("NOW     looking for", BLOCK).await?;
        let picture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../out/logs/status.png");
        // The messages of the kernel are still above the agent's screen.
        let memory = guest.vga_text(&picture).await?;
        let start = memory.rfind(" Landfall ").context("no status screen")?;
        let screen = memory[start..].to_owned();
        for expected in [
            " Landfall ",
            machine,
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
        let fault = EventsSchema::read()?.fault(Form::Status, &status);
        ensure!(fault.is_none(), "{fault:?}");
        let host = &status["host"];
        ensure!(
            host["serial"] == "LF4711" && host["boot_mode"] == "bios",
            "{status:#}"
        );
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
        ensure!(
            !screen.contains("press Enter"),
            "a form is offered: {screen}"
        );
        no_form(lab, &mut guest).await?;
        guest.cut_power().await
    });
}

/// Presses Enter, and fails if that opens the form.
async fn no_form(lab: &Lab, guest: &mut Guest) -> Result<()> {
    guest.press(&["ret"]).await?;
    // Wait longer than the interval between two drawings of the screen.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let picture = lab.log_path("no-form").with_extension("png");
    let memory = guest.vga_text(&picture).await?;
    ensure!(
        !memory.contains("change the network of this host"),
        "a form is open: {memory}"
    );
    Ok(())
}

/// Ironic rejects the agent's lookup, each time for another reason. After the last
/// rejection the machine is locked down, and the operator can no longer change its
/// network.
#[test]
fn each_answer_of_ironic_has_its_screen() {
    host_test("each_answer_of_ironic_has_its_screen", async |lab| {
        let mut site = Plan::default().site(lab).await?;
        site.script.hold = true;
        let services = site.serve(lab).await?;
        services.conductor.fail_lookups(Some(LookupFault::NotFound));
        let mut guest = site.power_on(lab).await?;
        guest.shows_example(lab, "ironic-404", BOOT).await?;
        let offer = ["HTTP 404: ", "press Enter to change the network"];
        guest.shows(lab, "ironic-404", &offer, BOOT).await?;
        for (fault, name, text) in [
            (
                LookupFault::Forbidden,
                "ironic-403",
                "ERROR lookup: HTTP 403: ",
            ),
            (
                LookupFault::Locked,
                "node-locked",
                "ERROR lookup: HTTP 409: ",
            ),
            (
                LookupFault::TokenSent,
                "token-already-sent",
                "NOW locked down: ",
            ),
        ] {
            services.conductor.fail_lookups(Some(fault));
            guest.shows_example(lab, name, BOOT).await?;
            guest.shows(lab, name, &[text], BOOT).await?;
        }
        guest.console("locked down: no link is up", BOOT).await?;
        no_form(lab, &mut guest).await?;
        let picture = lab.log_path("locked-down").with_extension("png");
        let memory = guest.vga_text(&picture).await?;
        let rest = memory.split("init: locking down now").nth(1);
        ensure!(
            rest.is_some_and(|rest| rest.starts_with(&" ".repeat(30))),
            "init's line is mixed with another one: {rest:?}"
        );
        // The agent's status screen is still there, above init's lines.
        let last = [
            "NOW locked down: ",
            "init: locking down now",
            "locked down: no link is up; reset the machine through its BMC to continue",
        ];
        guest.shows(lab, "locked-down", &last, BOOT).await?;
        guest.cut_power().await
    });
}
