use std::time::Duration;

use landfall_http_client::{HttpOptions, ServiceClient};

use super::*;

fn service(document: &str, given: Option<ApiVersion>) -> Service {
    let transport = Transport {
        client: ServiceClient::new(&HttpOptions::default()).unwrap(),
        request_id: None,
        timeout: Duration::from_secs(1),
    };
    Service::new(transport, &["http://x/".to_owned()], document, given)
}

#[test]
fn versions_compare_as_numbers() {
    let new = service(r#"{"default_version": {"version": "1.115"}}"#, None);
    assert!(new.takes_certificate() && new.takes_token() && new.takes_status_message());
    let without_status = service(r#"{"default_version": {"version": "1.71"}}"#, None);
    assert!(!without_status.takes_status_message());
    assert_eq!(older(new.version(), LOOKUP).to_text(), "1.62");
    assert_eq!(older(new.version(), HEARTBEAT).to_text(), "1.68");
    assert_eq!(new.base(), "http://x");

    let older_one = service(r#"{"default_version": {"version": "1.65"}}"#, None);
    assert!(older_one.takes_token() && !older_one.takes_certificate());
    assert_eq!(older(older_one.version(), HEARTBEAT).to_text(), "1.65");
    let old = service(r#"{"default_version": {"version": "1.9"}}"#, None);
    assert!(!old.takes_agent_version());
    assert_eq!(older(old.version(), LOOKUP).to_text(), "1.9");
    let next = service(r#"{"default_version": {"version": "2.0"}}"#, None);
    assert!(next.takes_certificate());
    assert_eq!(older(next.version(), LOOKUP).to_text(), "1.62");
}

#[test]
fn a_service_without_a_version_is_assumed_to_be_old_unless_configured() {
    for document in [
        "",
        "<html>",
        "{}",
        r#"{"default_version": {"version": "new"}}"#,
    ] {
        assert_eq!(service(document, None).version().to_text(), "1.31");
        let given = service(document, Some(HEARTBEAT));
        assert!(given.takes_certificate());
    }
}
