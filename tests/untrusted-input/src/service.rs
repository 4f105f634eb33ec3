//! Fuzz functions for messages from Ironic, and from hosts that claim to be
//! Ironic.

use std::net::Ipv6Addr;

use landfall_agent::commands::command::Command;
use landfall_agent::commands::files_to_inject::Content;
use landfall_agent::commands::image_info::ImageInfo;
use landfall_agent::commands::parse::{Parsed, Request};
use landfall_agent::commands::{files_to_inject, url_template};
use landfall_boot_params::CommandLine;
use landfall_discovery::mdns_advert::{Advert, AdvertAddress};
use landfall_handover::ignition_file;
use landfall_http_client::ZonedUrl;
use landfall_http_client::tls::{Identity, ServerTrust, TlsPolicy, issuer_name, pem_files};
use landfall_inventory::root_device_hints::{RootDeviceHints, SkipList};
use landfall_ironic::{LookupAnswer, wire};
use landfall_settings::media::Media;
use landfall_settings::{ConfigFiles, IgnitionParts, Settings};
use landfall_sys::calendar;
use serde_json::Value;

/// Reads the body of a command, and the parts of it that the execution reads
/// before it does anything.
pub fn http_command(data: &[u8]) {
    let Ok(Ok(Parsed::Command(command))) = Request::parse(data).map(Request::command) else {
        return;
    };
    let _ = (command.name(), command.is_asynchronous());
    let Command::ExecuteStep {
        node, arguments, ..
    } = *command
    else {
        return;
    };
    let arguments = Value::Object(arguments);
    let _ = ImageInfo::read(&arguments["image_info"]);
    if let Ok(files) = files_to_inject::read(&Value::Null, &arguments["files"]) {
        for file in files {
            if let Content::Url(template) = file.content {
                let _ = url_template::fill(&template, &node.0);
            }
        }
    }
    let properties = node.0.get("properties").unwrap_or(&Value::Null);
    let _ = RootDeviceHints::parse(&properties["root_device"]);
    let _ = SkipList::parse(&properties["skip_block_devices"]);
    let user_data = node
        .instance_info("configdrive")
        .and_then(|drive| drive["user_data"].as_str());
    let _ = ignition_file::with_hostname(user_data.map(str::as_bytes), Some("host"));
}

/// Reads Ironic's answer to a lookup: the text of an error, and the settings in
/// the answer.
pub fn lookup_answer(data: &[u8]) {
    let answer = landfall_http_client::Answer {
        status: 200,
        date: None,
        redirect: None,
        is_plain_http: true,
        body: String::from_utf8_lossy(data).into_owned(),
    };
    let _ = wire::fault(&answer);
    if let Ok(found) = LookupAnswer::read(&answer.body) {
        assert!(found.config.is_object() && !found.uuid.contains('/'));
        let _ = found.agent_token();
        let line = CommandLine::parse("");
        let mut settings = Settings::from_sources(
            line,
            Media::default(),
            ConfigFiles::default(),
            IgnitionParts::default(),
        );
        let _ = settings.apply_lookup_config(&found.config);
    }
}

/// Reads the `Date` header of Ironic's answers, from which the agent may set
/// its clock.
pub fn http_date(data: &[u8]) {
    if let Some(time) = calendar::parse_http_date(&String::from_utf8_lossy(data)) {
        let _ = (calendar::civil(time), calendar::shown(time));
    }
}

/// Reads a CA file or an identity from an operator, and builds TLS settings
/// from it.
pub fn pem_file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = pem_files::certificates_of("fuzz", data);
    let _ = issuer_name::issuer_name(data);
    if let Ok(identity) = Identity::from_pem("fuzz", &text, &text) {
        let _ = TlsPolicy::default().server(&identity);
        let _ = TlsPolicy::default().client(ServerTrust::anybody(), Some(&identity));
    }
}

/// Reads an mDNS answer from an untrusted host on the link: port, SRV target,
/// and one TXT entry per line. The addresses are fixed.
pub fn mdns_advert(data: &[u8]) {
    let Some((port, rest)) = data.split_first_chunk::<2>() else {
        return;
    };
    let mut lines = rest.split(|byte| *byte == b'\n');
    let host = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let txt = lines.map(|line| match line.iter().position(|byte| *byte == b'=') {
        Some(at) => (
            String::from_utf8_lossy(&line[..at]).into_owned(),
            line[at + 1..].to_vec(),
        ),
        None => (String::from_utf8_lossy(line).into_owned(), Vec::new()),
    });
    let advert = Advert {
        host,
        port: u16::from_be_bytes(*port),
        addresses: vec![
            AdvertAddress {
                address: Ipv6Addr::LOCALHOST.into(),
                interface: None,
            },
            AdvertAddress {
                address: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1).into(),
                interface: Some("eth0".to_owned()),
            },
        ],
        txt: txt.collect(),
    };
    if let Ok(endpoint) = advert.endpoint(|_| false) {
        let zoned = ZonedUrl::parse(&endpoint.url);
        assert!(reqwest::Url::parse(&zoned.url).is_ok(), "{}", endpoint.url);
    }
}
