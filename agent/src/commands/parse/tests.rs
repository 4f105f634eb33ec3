use super::*;

fn refusal(body: &str) -> (u16, String) {
    let refusal = Request::parse(body.as_bytes())
        .and_then(Request::command)
        .expect_err("should be refused");
    (refusal.status, refusal.text)
}

#[test]
fn refusals_are_the_originals() {
    for (body, status, begin) in [
        ("{", 400, "400 Bad Request: Failed to decode JSON object"),
        (
            "[]",
            400,
            "400 Bad Request: Missing or invalid name or params",
        ),
        (
            r#"{"name":"standby.sync"}"#,
            400,
            "400 Bad Request: Missing or invalid name or params",
        ),
        (
            r#"{"name":"standby.sync","params":[]}"#,
            400,
            "400 Bad Request: Missing or invalid name or params",
        ),
        (
            r#"{"name":"sync","params":{}}"#,
            400,
            "Invalid command: Command name must be of the form <extension>.<name>",
        ),
        (
            r#"{"name":"nosuch.sync","params":{}}"#,
            404,
            "Not found: Extension with id nosuch not found.",
        ),
        (
            r#"{"name":"standby.nosuch","params":{}}"#,
            400,
            "Invalid command: Unknown command: nosuch",
        ),
        (
            r#"{"name":"deploy.get_deploy_steps","params":{"ports":[],"node":{
                "deploy_interface":"direct","instance_info":{"image_source":"http://a/b"},
                "driver_internal_info":{"is_whole_disk_image":false}}}}"#,
            400,
            "Invalid command parameters: http://a/b is a partition image",
        ),
        (
            r#"{"name":"clean.get_clean_steps","params":{"ports":[],"node":{
                "driver_internal_info":{"clean_steps":[{"step":"burnin_disk","interface":"deploy"}]}}}}"#,
            400,
            "Invalid command parameters: clean step burnin_disk is not offered: burn-in needs fio",
        ),
        (
            r#"{"name":"standby.execute_bootc_install","params":{}}"#,
            400,
            "Invalid command parameters: the deploy interface bootc is not offered",
        ),
    ] {
        let (found_status, text) = refusal(body);
        assert_eq!(found_status, status, "{body}");
        assert!(text.starts_with(begin), "{body}: {text}");
    }
}

#[test]
fn every_name_of_the_table_is_parsed() {
    for name in Command::NAMES {
        let body = serde_json::json!({
            "name": name,
            "params": {"node": {}, "ports": [], "step": {"step": "x"}, "unknown": 1,
                "image_info": {"id": "x", "urls": ["http://x"], "checksum": "x"},
                "node_info": {"node": {"uuid": "x"}}, "flow": []},
        });
        let parsed = Request::parse(body.to_string().as_bytes())
            .and_then(Request::command)
            .unwrap();
        match parsed {
            Parsed::Command(command) => {
                assert_eq!(Some(command.name()), name.split('.').nth(1));
            }
            Parsed::Failed(..) => panic!("{name} refused its arguments"),
        }
    }
}

fn failed(body: &str) -> (String, Failure) {
    match Request::parse(body.as_bytes()).and_then(Request::command) {
        Ok(Parsed::Failed(name, failure)) => (name, failure),
        other => panic!("{body}: {other:?}"),
    }
}

#[test]
fn missing_arguments_fail_the_command_with_type_error() {
    for (name, parameters) in [
        ("deploy.execute_deploy_step", r#"{"node":{},"ports":[]}"#),
        ("deploy.execute_deploy_step", r#"{"step":{},"node":{}}"#),
        ("clean.get_clean_steps", r#"{"ports":[]}"#),
        ("clean.get_clean_steps", r#"{"node":{}}"#),
        ("flow.start_flow", "{}"),
        ("flow.start_flow", r#"{"flow":"standby.sync"}"#),
    ] {
        let (failed, failure) = failed(&format!(r#"{{"name":"{name}","params":{parameters}}}"#));
        assert!(name.ends_with(&format!(".{failed}")), "{name}: {failed}");
        assert_eq!(failure.class, Class::TypeError, "{name} {parameters}");
    }
}

#[test]
fn a_flow_is_checked_before_it_begins() {
    let flow = |tasks: &str| format!(r#"{{"name":"flow.start_flow","params":{{"flow":{tasks}}}}}"#);
    assert_eq!(
        refusal(&flow(r#"[{"standby.nosuch":{}}]"#)),
        (
            400,
            "Invalid command parameters: Extension standby doesn't provide nosuch method".into()
        )
    );
    assert_eq!(refusal(&flow(r#"[{"nodot":{}}]"#)).1, NO_DOT);
    let (_, failure) = failed(&flow(r#"[{"nosuch.sync":{}}]"#));
    assert_eq!(failure.class, Class::RequestedObjectNotFoundError);
    let body =
        flow(r#"[{"standby.sync":{}},{"flow.start_flow":{"flow":[]}},{"standby.run_image":null}]"#);
    let parsed = Request::parse(body.as_bytes()).and_then(Request::command);
    let Ok(Parsed::Command(command)) = parsed else {
        panic!("{parsed:?}");
    };
    let Command::StartFlow { tasks } = *command else {
        panic!("{command:?}");
    };
    let classes: Vec<Option<Class>> = tasks
        .iter()
        .map(|task| task.command.as_ref().err().map(|failure| failure.class))
        .collect();
    assert_eq!(
        classes,
        [None, Some(Class::AgentIsBusy), Some(Class::TypeError)]
    );
}

#[test]
fn a_rescue_password_is_not_shown() {
    let body = br#"{"name":"rescue.finalize_rescue","params":{"rescue_password":"geheim"}}"#;
    let parsed = Request::parse(body).and_then(Request::command).unwrap();
    assert!(!format!("{parsed:?}").contains("geheim"));
}

#[test]
fn arguments_of_a_step_are_the_commands_under_its_own() {
    let body = br#"{"name":"clean.execute_clean_step","params":{
        "node":{}, "ports":[], "clean_version":{"a":"1"}, "x":1, "y":2,
        "step":{"step":"s", "args":{"y":3}}}}"#;
    let parsed = Request::parse(body).and_then(Request::command).unwrap();
    let Parsed::Command(command) = parsed else {
        panic!("{parsed:?}");
    };
    let Command::ExecuteStep {
        kind,
        arguments,
        version,
        ..
    } = *command
    else {
        panic!("{command:?}");
    };
    assert_eq!(kind, StepKind::Clean);
    assert_eq!(Value::from(arguments), serde_json::json!({"x": 1, "y": 3}));
    assert_eq!(version, Some(serde_json::json!({"a": "1"})));
}

#[test]
fn a_body_of_many_values_gets_no_memory() {
    let body = |count: usize| {
        let zeros = vec!["0"; count].join(",");
        format!(r#"{{"name": "standby.sync", "params": {{"x": [{zeros}]}}}}"#)
    };
    assert!(Request::parse(body(1000).as_bytes()).is_ok());
    let refusal = Request::parse(body(300_000).as_bytes()).unwrap_err();
    assert_eq!(refusal.status, 400);
}
