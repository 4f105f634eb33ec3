//! Decides which HTTP answers end a search. No I/O.
//!
//! At the same address, another server may answer through another NIC, and faster than
//! the service: a proxy, a captive portal or an unrelated service.

use std::fmt;

use landfall_http_client::Answer;
use serde_json::Value;

/// The expected kind of server at the URLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Ironic. Its answer to `GET /` lists the versions of its API.
    Ironic,
    /// A server that has the file at the URL. The server sends the first byte or the
    /// whole file, answers 416 because the file is empty, or redirects to the file, as
    /// mirrors and artifact stores do. A redirect that the download follows may also
    /// lead to a login page, so the search prefers an answer with the file itself.
    File,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Expected::Ironic => "Ironic",
            Expected::File => "a server that has the file",
        })
    }
}

/// The reason why an answer is not from the expected server, for the operator.
/// `landfall_report::status::WayStep::is_unexpected_answer` must recognise each of these
/// texts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnexpectedAnswer {
    /// A program other than Ironic answers at this URL. Check host, port and path in
    /// `ipa-api-url`.
    #[error("status 200, but not Ironic's list of API versions")]
    NotIronic,
    /// The server expects TLS on this port, and the URL says `http://`. Write `https://` in
    /// the argument that has the URL.
    #[error(
        "status 400: the server speaks https there, and the URL says http:// -- write https:// in the URL ({0}); if the site has a CA of its own, give it as CA file (--ca-file of the builder)"
    )]
    WantsTls(&'static str),
    /// The server redirects from https to http, or to a URL of another scheme. Correct the
    /// server, or give the URL of the file itself. Holds the URL of the redirect.
    #[error("a redirect to {0}, which the download does not follow")]
    Redirect(String),
    /// Another service answers at the URL, or the server does not have the file. Check the
    /// URL.
    #[error("status {0}")]
    Status(u16),
}

impl Expected {
    /// # Errors
    /// If another server has answered.
    pub(super) fn check(self, answer: &Answer) -> Result<(), UnexpectedAnswer> {
        let status = answer.status;
        match self {
            Expected::Ironic if is_root_document(answer) => Ok(()),
            Expected::Ironic if status == 200 => Err(UnexpectedAnswer::NotIronic),
            Expected::File if matches!(status, 200 | 206 | 416) => Ok(()),
            Expected::Ironic | Expected::File if answer.wants_tls() => {
                Err(UnexpectedAnswer::WantsTls(self.arguments()))
            }
            Expected::Ironic => Err(UnexpectedAnswer::Status(status)),
            Expected::File => match &answer.redirect {
                Some(redirect) if redirect.is_followed => Ok(()),
                Some(redirect) => Err(UnexpectedAnswer::Redirect(redirect.to.clone())),
                None => Err(UnexpectedAnswer::Status(status)),
            },
        }
    }

    /// The arguments that can give the URL. Which of them gave it is not known here.
    fn arguments(self) -> &'static str {
        match self {
            Expected::Ironic => "ipa-api-url, or what mDNS announces",
            Expected::File => "coreos.inst.image_url, coreos.inst.ignition_url",
        }
    }
}

/// Ironic's root document has contained `default_version` since the first version of
/// its API. Keystone and Nova, which may share a front end with Ironic, return only
/// `versions`.
fn is_root_document(answer: &Answer) -> bool {
    let document: Option<Value> = serde_json::from_str(&answer.body).ok();
    answer.status == 200 && document.is_some_and(|it| it["default_version"].is_object())
}

#[cfg(test)]
mod tests {
    use landfall_http_client::Redirect;
    use landfall_http_client::fixtures::answer;
    use landfall_report::status::WayStep;

    use super::*;

    #[test]
    fn a_redirect_counts_if_the_download_follows_it() {
        for (is_followed, expected) in [
            (true, None),
            (
                false,
                Some("a redirect to http://h/login, which the download does not follow"),
            ),
        ] {
            let answer = Answer {
                redirect: Some(Redirect {
                    to: "http://h/login".to_owned(),
                    is_followed,
                }),
                ..answer(302, "")
            };
            let found = Expected::File.check(&answer).err();
            assert_eq!(found.map(|found| found.to_string()).as_deref(), expected);
            // A heartbeat contains the agent token, so the client for Ironic follows no
            // redirect, which could send the token to another server.
            let found = Expected::Ironic.check(&answer);
            assert_eq!(found, Err(UnexpectedAnswer::Status(302)));
        }
    }

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
            let answer = answer(status, body);
            let found = |expected: Expected| {
                let error = expected.check(&answer).err();
                error.map(|error| error.to_string())
            };
            assert_eq!(
                found(Expected::Ironic).as_deref(),
                as_ironic,
                "{status} {body}"
            );
            assert_eq!(found(Expected::File).as_deref(), as_file, "{status}");
        }
    }

    /// If `is_unexpected_answer` did not recognise a text, the screen would say that the
    /// service has not answered.
    #[test]
    fn the_screen_knows_each_unexpected_answer() {
        for found in [
            UnexpectedAnswer::NotIronic,
            UnexpectedAnswer::WantsTls("ipa-api-url"),
            UnexpectedAnswer::Redirect("http://h/login".to_owned()),
            UnexpectedAnswer::Status(404),
        ] {
            let step = WayStep {
                step: "HTTP".to_owned(),
                outcome: "failed".to_owned(),
                text: found.to_string(),
                remedy: None,
            };
            assert!(step.is_unexpected_answer(), "{step:?}");
        }
    }

    #[test]
    fn plain_http_to_a_tls_port_is_reported_with_the_argument() {
        let answer = answer(400, "Client sent an HTTP request to an HTTPS server.");
        for (expected, arguments) in [
            (Expected::Ironic, "ipa-api-url, or what mDNS announces"),
            (
                Expected::File,
                "coreos.inst.image_url, coreos.inst.ignition_url",
            ),
        ] {
            let found = expected.check(&answer).unwrap_err().to_string();
            let words = format!(
                "status 400: the server speaks https there, and the URL says http:// -- write https:// in the URL ({arguments});"
            );
            assert!(found.starts_with(&words), "{found}");
        }
    }
}
