//! Which HTTP answers end a search. Pure.
//!
//! A proxy, a captive portal or another service may answer at the same address
//! in the network of another NIC, and sooner.

use std::fmt;

use serde_json::Value;

use crate::http_client::Answer;

/// What answers at the URLs that are searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Ironic, whose `GET /` answers with the versions of its API.
    Ironic,
    /// A server of the file at the URL, whose first byte it gives, or all of
    /// it, or which says that an empty file has none (416). A captive portal
    /// redirects, and a wrong host has no such file.
    File,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Expected::Ironic => "Ironic",
            Expected::File => "a server of this file",
        })
    }
}

impl Expected {
    /// # Errors
    /// What was found instead, for the operator.
    pub(super) fn check(self, answer: &Answer) -> Result<(), String> {
        let status = answer.status;
        match self {
            Expected::Ironic if is_root_document(answer) => Ok(()),
            Expected::Ironic if status == 200 => {
                Err("status 200, but not Ironic's list of API versions".to_owned())
            }
            Expected::File if matches!(status, 200 | 206 | 416) => Ok(()),
            Expected::Ironic | Expected::File => Err(format!("status {status}")),
        }
    }
}

/// Ironic has had this member since its first API; Keystone and Nova, which may
/// share a front end with it, have `versions` alone.
fn is_root_document(answer: &Answer) -> bool {
    let document: Option<Value> = serde_json::from_str(&answer.body).ok();
    answer.status == 200 && document.is_some_and(|it| it["default_version"].is_object())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ironic_is_known_by_its_root_document() {
        let ironic = r#"{"name": "OpenStack Ironic API", "default_version": {"id": "v1"}}"#;
        let keystone = r#"{"versions": {"values": [{"id": "v3.14"}]}}"#;
        for (status, body, as_ironic, as_file) in [
            (200, ironic, None, None),
            (
                200,
                "<html>portal</html>",
                Some("status 200, but not Ironic's list of API versions"),
                None,
            ),
            (300, keystone, Some("status 300"), Some("status 300")),
            (206, "", Some("status 206"), None),
            (302, "", Some("status 302"), Some("status 302")),
            (416, "", Some("status 416"), None),
            (404, "", Some("status 404"), Some("status 404")),
            (503, ironic, Some("status 503"), Some("status 503")),
            (502, "", Some("status 502"), Some("status 502")),
        ] {
            let answer = Answer {
                status,
                date: None,
                body: body.to_owned(),
            };
            let found = |expected: Expected| expected.check(&answer).err();
            assert_eq!(
                found(Expected::Ironic).as_deref(),
                as_ironic,
                "{status} {body}"
            );
            assert_eq!(found(Expected::File).as_deref(), as_file, "{status}");
        }
    }
}
