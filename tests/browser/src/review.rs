//! Looks at one page as a person does: on a phone and on a desk, light and dark.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::devtools::Browser;

/// A window, in CSS pixels.
#[derive(Debug, Clone, Copy)]
pub struct View {
    pub name: &'static str,
    pub width: u32,
    pub height: u32,
    pub is_phone: bool,
    pub is_dark: bool,
}

/// The windows in which every page is reviewed.
pub const VIEWS: [View; 4] = [
    View::phone("phone-light", false),
    View::phone("phone-dark", true),
    View::desk("desk-light", false),
    View::desk("desk-dark", true),
];

impl View {
    const fn phone(name: &'static str, is_dark: bool) -> Self {
        Self {
            name,
            width: 360,
            height: 740,
            is_phone: true,
            is_dark,
        }
    }

    const fn desk(name: &'static str, is_dark: bool) -> Self {
        Self {
            name,
            width: 1280,
            height: 800,
            is_phone: false,
            is_dark,
        }
    }
}

/// What one window showed.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Seen {
    pub title: String,
    /// The text that a person reads.
    pub text: String,
    /// The whole document, with attributes.
    pub dom: String,
    /// The faults of the page: texts that are hard to read, parts outside the window,
    /// missing headings and labels.
    faults: Vec<String>,
    /// The brightness of the page, from 0 (black) to 1 (white).
    brightness: f64,
}

/// Opens the page in all windows, and fails if it has a fault in one of them. Saves the
/// pictures as `out/pages/NAME-VIEW.png`. Returns what the windows showed.
pub fn review(browser: &mut Browser, name: &str, url: &str) -> Vec<Seen> {
    let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../out/pages");
    fs::create_dir_all(&pictures).unwrap();
    let mut all = Vec::new();
    for view in &VIEWS {
        let seen = look(browser, url, view);
        let picture = pictures.join(format!("{name}-{}.png", view.name));
        fs::write(&picture, screenshot(browser)).unwrap();
        let (shown, faults) = (picture.display(), &seen.faults);
        assert!(
            faults.is_empty(),
            "{url}, {}, {shown}: {faults:#?}",
            view.name
        );
        all.push(seen);
    }
    all
}

/// Opens the page in one window. Returns what the window shows, with all faults of the
/// page.
fn look(browser: &mut Browser, url: &str, view: &View) -> Seen {
    let (mut seen, events) = open(browser, url, view);
    seen.faults.extend(faults_of_events(&events, url));
    let expected = if view.is_dark { 0.0..0.1 } else { 0.8..1.1 };
    if !expected.contains(&seen.brightness) {
        let fault = format!("the page has brightness {}", seen.brightness);
        seen.faults.push(fault);
    }
    seen
}

fn open(browser: &mut Browser, url: &str, view: &View) -> (Seen, Vec<Value>) {
    let scheme = if view.is_dark { "dark" } else { "light" };
    let size = json!({
        "width": view.width,
        "height": view.height,
        "deviceScaleFactor": if view.is_phone { 2 } else { 1 },
        "mobile": view.is_phone,
    });
    browser.command("Emulation.setDeviceMetricsOverride", &size);
    let scheme = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
    browser.command("Emulation.setEmulatedMedia", &scheme);
    // Leave the page first, so that no event of its automatic refresh is counted for this
    // visit.
    browser.command("Page.navigate", &json!({"url": "about:blank"}));
    browser.events_until("Page.loadEventFired");
    browser.events_so_far();
    let result = browser.command("Page.navigate", &json!({"url": url}));
    assert!(result["errorText"].is_null(), "{url}: {result}");
    let mut events = browser.events_until("Page.loadEventFired");
    let seen = browser.evaluate(include_str!("look.js"));
    events.extend(browser.events_so_far());
    (serde_json::from_value(seen).unwrap(), events)
}

fn screenshot(browser: &mut Browser) -> Vec<u8> {
    let parameters = json!({"format": "png", "captureBeyondViewport": true});
    let picture = browser.command("Page.captureScreenshot", &parameters);
    STANDARD.decode(picture["data"].as_str().unwrap()).unwrap()
}

/// Errors and warnings of the browser, requests for any other URL, and a status other
/// than 200.
fn faults_of_events(events: &[Value], url: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut has_asked = false;
    for event in events {
        let parameters = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Network.requestWillBeSent" => {
                let asked = parameters["request"]["url"].as_str().unwrap_or_default();
                has_asked |= asked == url;
                if asked != url && asked != "data:," {
                    faults.push(format!("request for {asked}"));
                }
            }
            "Network.responseReceived" => {
                let response = &parameters["response"];
                if response["url"] == url && response["status"] != 200 {
                    faults.push(format!("status {}", response["status"]));
                }
            }
            "Log.entryAdded"
            | "Runtime.consoleAPICalled"
            | "Runtime.exceptionThrown"
            | "Audits.issueAdded"
            | "Network.loadingFailed" => faults.push(event.to_string()),
            _ => {}
        }
    }
    if !has_asked {
        faults.push("the browser has not asked for the page".to_owned());
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_found() {
        let Some(mut browser) = Browser::start() else {
            return;
        };
        let directory = tempfile::tempdir().unwrap();
        let page = directory.path().join("bad.html");
        fs::write(&page, include_str!("bad.html")).unwrap();
        let url = format!("file://{}", page.display());
        let seen = look(&mut browser, &url, &VIEWS[1]);
        for expected in [
            "of 360 pixels wide",
            "beyond the window: div",
            "transparent: p",
            "contrast 1.24: p",
            "9 pixels high: p",
            "no language",
            "no main part",
            "out of order: h3",
            "without a label: <input",
            "without a label: <progress",
            "without a text: <a",
            "scripts",
            "request for http://example.org/",
            "oops",
            "brightness 1",
        ] {
            let found = seen.faults.iter().any(|fault| fault.contains(expected));
            assert!(found, "{expected:?} is not in {:#?}", seen.faults);
        }
    }
}
