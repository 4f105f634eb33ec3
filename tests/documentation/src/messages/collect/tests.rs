use super::super::constants::constants_of;
use super::*;

fn messages(source: &str) -> Vec<Message> {
    messages_of(source, &constants_of(source).unwrap()).unwrap()
}

fn found(body: &str) -> Vec<(String, Kind, String, bool)> {
    let source = format!("fn fault(d: &str) -> Failure {{ todo!() }} fn a() {{ {body} }}");
    { messages(&source).into_iter() }
        .map(|m| (m.text, m.kind, m.remedy, m.is_permanent))
        .collect()
}

#[test]
fn every_way_to_make_a_message_is_found() {
    let error = |class: &str| Kind::Error(Some(class.to_owned()));
    for (body, text, kind, remedy, is_permanent) in [
        (
            r#"Failure::image_download(format!("no {x}")).hint("do y").permanently()"#,
            "no {x}",
            error("ImageDownloadError"),
            "do y",
            true,
        ),
        (
            r#"Failure::new(Class::InvalidImage, "no image at all")"#,
            "no image at all",
            error("InvalidImage"),
            "",
            false,
        ),
        (
            r#"let details = format!("gone: {x}"); Failure::other(details).hint("z")"#,
            "gone: {x}",
            Kind::Error(None),
            "z",
            false,
        ),
        (
            r#"fault("this is broken")"#,
            "this is broken",
            Kind::Error(None),
            "",
            false,
        ),
        (
            r#"tracing::warn!("odd {x}")"#,
            "odd {x}",
            Kind::Warning,
            "",
            false,
        ),
        (
            r#"warnings.push(format!("{x}: ignored"))"#,
            "{x}: ignored",
            Kind::Warning,
            "",
            false,
        ),
        (r#"bail!("no {x}")"#, "no {x}", Kind::Error(None), "", false),
        (
            r#"r.map_err(|e| Failure::erasure(format!("it {e}")).hint("h"))?"#,
            "it {e}",
            error("BlockDeviceEraseError"),
            "h",
            false,
        ),
    ] {
        let expected = (text.to_owned(), kind, remedy.to_owned(), is_permanent);
        assert_eq!(found(body), [expected], "{body}");
    }
    assert_eq!(found("Failure::other(e.to_string())"), []);
    assert_eq!(found(r#"Failure::other("its end")"#), []);
}

#[test]
fn a_text_that_comes_from_elsewhere_is_found() {
    for (source, expected) in [
        (
            r#"fn a() { let t = format!("{n} has no carrier"); warn!("{t}; waiting -- check it"); }"#,
            &["{n} has no carrier; waiting -- check it"][..],
        ),
        (
            r#"fn a() { let t = match x { 1 => "no disk is here", _ => "no NIC is here" }; warn!("{t}"); }"#,
            &["no NIC is here", "no disk is here"],
        ),
        (
            r#"fn a() -> Result<u8, String> { Err("no answer in time".to_owned()) }"#,
            &["no answer in time"],
        ),
        (
            r#"fn a() -> Result<u8, E> { Err("no answer in time") }"#,
            &[],
        ),
        (
            r#"fn a() -> Result<u8, String> { b.map_err(|e| format!("cannot open it: {e}")) }"#,
            &["cannot open it: {e}"],
        ),
        (
            r#"fn why() -> Option<String> { if x { return Some("its end is missing".to_owned()); } None }"#,
            &["its end is missing"],
        ),
        (
            r#"fn name() -> String { "its end is missing".to_owned() }"#,
            &[],
        ),
        (
            r#"const REST: &str = " (the node is locked)"; fn explain() -> String { format!("{}{REST}", b()) }"#,
            &["{} (the node is locked)"],
        ),
        (
            r#"fn a() { fields.fault("mode", "needs mode trunk"); nic.trouble = Some("it has no link".to_owned()); }"#,
            &["it has no link", "needs mode trunk"],
        ),
        (
            r#"fn a() { b(Self::Rejected("it forgets the agent -- reset it")); }"#,
            &["it forgets the agent -- reset it"],
        ),
        (r#"fn a() { info!("it is installed -- reset it"); }"#, &[]),
        ("/// It fails -- reset it\nfn a() {}", &[]),
    ] {
        let texts: Vec<String> = { messages(source).into_iter() }
            .map(|message| message.text)
            .collect();
        assert_eq!(texts, expected, "{source}");
    }
}

#[test]
fn a_failure_has_its_remedy_from_a_field_or_from_a_later_call() {
    let fields = r#"fn a() { Failure { class: Class::DeviceNotFound, details: "no disk at all".to_owned(), hint: Some("add one".to_owned()) } }"#;
    let message = messages(fields).remove(0);
    assert_eq!(
        (message.kind, message.remedy.as_str()),
        (Kind::Error(Some("DeviceNotFound".to_owned())), "add one")
    );
    let later = r#"fn a() { let f = Failure::other("it has failed"); match x { 1 => f.hint("do x"), _ => f.hint("do y") } }"#;
    assert_eq!(messages(later).remove(0).remedy, "do x; or: do y");
}

#[test]
fn a_class_has_the_name_of_ironic() {
    let source =
        "enum Other { A } enum Class { /// Not\n/// now.\nAgentIsBusy, SoftwareRaidError }";
    let of = |name: &str, meaning: &str| (name.to_owned(), meaning.to_owned());
    assert_eq!(
        classes_of(source).unwrap(),
        [of("AgentIsBusy", "Not now."), of("SoftwareRAIDError", "")]
    );
}

#[test]
fn the_meaning_of_a_variant_is_its_documentation() {
    let source = "enum E { /// From\n/// there.\n#[error(\"no {0}\")] A(u8) }";
    let message = messages(source).remove(0);
    assert_eq!(
        (message.text.as_str(), message.meaning.as_str()),
        ("no {0}", "From there.")
    );
    for (comment, meaning) in [
        ("From there. Holds it.", "From there."),
        ("Holds it. It is long.", ""),
        ("It holds. It Holds it.", "It holds. It Holds it."),
    ] {
        let source = format!("enum E {{ /// {comment}\n#[error(\"no {{0}}\")] A(u8) }}");
        assert_eq!(messages(&source).remove(0).meaning, meaning, "{comment}");
    }
    let whole = "/// It is gone.\n#[error(\"expected it, found {0}\")] struct Gone(String);";
    assert_eq!(messages(whole).remove(0).meaning, "It is gone.");
    let part = "enum What { #[error(\"its end\")] End }";
    assert_eq!(messages(part), []);
    let tests = "#[cfg(test)] mod tests { fn a() { Failure::other(\"x\") } }";
    assert_eq!(messages(tests), []);
}

#[test]
fn a_type_whose_comment_calls_it_a_warning_is_one() {
    let error = || Kind::Error(None);
    for (comment, kind) in [
        ("A warning: why it goes on.", Kind::Warning),
        ("It is old. A warning only.\n/// More.", Kind::Warning),
        ("It is old.\n/// A warning comes later.", error()),
        ("It gives warnings.", error()),
    ] {
        let one = format!("/// {comment}\n#[error(\"it is {{0}}\")] struct Old(u8);");
        assert_eq!(messages(&one).remove(0).kind, kind, "{one}");
        let many =
            format!("/// {comment}\nenum E {{ /// A warning.\n#[error(\"no {{0}}\")] A(u8) }}");
        let message = messages(&many).remove(0);
        assert_eq!(message.kind, kind, "{many}");
        assert_eq!(message.meaning, "A warning.", "{many}");
    }
}
