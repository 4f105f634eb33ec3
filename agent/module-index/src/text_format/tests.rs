use proptest::prelude::*;

use super::*;
use crate::content::{BuiltIn, IndexContent, Module};

const GOOD: &str = "\
landfall-module-index 1
kernel 6.1.0-56-cloud-amd64
builtin crc32c_generic
alias crypto-crc32c
module virtio_net kernel/drivers/net/virtio_net.ko
needs virtio crc32c_generic
before crypto-crc32c
after later
alias virtio:d00000001v*
alias dmi:*:svnSome Vendor:*
module virtio kernel/drivers/virtio/virtio.ko
end
";

#[test]
fn good_text_is_understood_and_written_alike() {
    let content = IndexContent::parse(GOOD).unwrap();
    assert_eq!(content.kernel_release, "6.1.0-56-cloud-amd64");
    assert_eq!(content.built_in[0].aliases, ["crypto-crc32c"]);
    let net = &content.modules[0];
    assert_eq!(
        (net.name.as_str(), net.path.as_str()),
        ("virtio_net", "kernel/drivers/net/virtio_net.ko")
    );
    assert_eq!(net.needs, ["virtio", "crc32c_generic"]);
    assert_eq!(
        (&net.softdeps_before[..], &net.softdeps_after[..]),
        (&["crypto-crc32c".to_owned()][..], &["later".to_owned()][..])
    );
    assert_eq!(
        net.aliases,
        ["virtio:d00000001v*", "dmi:*:svnSome Vendor:*"]
    );
    assert_eq!(content.to_text().unwrap(), GOOD);
}

#[test]
fn every_fault_has_its_line() {
    let fault = |text: &str| {
        let error = IndexContent::parse(text).unwrap_err();
        error.to_string().replace("module index ", "")
    };
    let table = include_str!("../../test_data/faults.txt");
    for row in table.lines().filter(|row| !row.starts_with('#')) {
        let (text, expected) = row.split_once(" | ").unwrap();
        assert_eq!(fault(&text.replace("\\n", "\n")), expected, "{text}");
    }
    let head = "landfall-module-index 1\nkernel 6.1\n";
    let bell = fault(&format!("{head}module a a.ko\nalias \u{7}\nend\n"));
    assert!(bell.ends_with("without control characters, found `\\u{7}`"));
    let long = fault(&format!("{head}alias {}\n", "x".repeat(MAX_LINE_BYTES)));
    assert_eq!(long, "line 3: expected at most 4096 bytes, found 4102");
}

#[test]
fn limits() {
    let text = " ".repeat(MAX_INDEX_BYTES + 1);
    assert_eq!(
        IndexContent::parse(&text),
        Err(ParseError::TooLarge {
            found: MAX_INDEX_BYTES + 1
        })
    );

    let module = |n: usize| Module {
        name: format!("m{n}"),
        path: format!("m{n}.ko"),
        ..Module::default()
    };
    let mut content = IndexContent {
        kernel_release: "1".into(),
        ..IndexContent::default()
    };
    content.modules = (0..MAX_MODULES).map(module).collect();
    assert!(content.to_text().is_ok());
    content.modules.push(module(MAX_MODULES));
    assert!(matches!(
        content.to_text(),
        Err(WriteError::OverLimit { .. })
    ));
}

#[test]
fn text_that_would_read_back_differently_is_not_written() {
    let with = |module: Module| IndexContent {
        kernel_release: "1".into(),
        modules: vec![module],
        built_in: vec![],
    };
    for (name, path, alias) in [
        ("a b", "a.ko", "x"),
        ("", "a.ko", "x"),
        ("a", "a\n.ko", "x"),
        ("a", "a.ko", "x\ny"),
        ("a", "a.ko", ""),
    ] {
        let module = Module {
            name: name.into(),
            path: path.into(),
            aliases: vec![alias.into()],
            ..Module::default()
        };
        assert!(
            matches!(with(module).to_text(), Err(WriteError::BadWord { .. })),
            "{name:?} {path:?} {alias:?}"
        );
    }
    let module = Module {
        name: "a".into(),
        path: "a.ko".into(),
        needs: vec!["gone".into()],
        ..Module::default()
    };
    assert!(matches!(
        with(module).to_text(),
        Err(WriteError::Unreadable(_))
    ));
}

fn word() -> impl Strategy<Value = String> {
    "[!-~]{1,12}"
}

fn aliases() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec("[ -~äß]{1,30}", 0..4)
}

prop_compose! {
    fn content()(
        release in word(),
        count in 1usize..8,
        softdeps in proptest::collection::vec((proptest::collection::vec(word(), 0..3), proptest::collection::vec(word(), 0..3)), 8),
        needs in proptest::collection::vec(proptest::collection::vec(0usize..8, 0..4), 8),
        alias_lists in proptest::collection::vec(aliases(), 10),
        paths in proptest::collection::vec("[a-z0-9_,+-]{1,8}(/[a-z0-9_,+-]{1,8}){0,3}\\.ko", 8),
    ) -> IndexContent {
        let modules = (0..count).map(|n| Module {
            name: format!("m{n}"),
            path: paths[n].clone(),
            needs: needs[n].iter().map(|need| if *need < count { format!("m{need}") } else { "b0".into() }).collect(),
            softdeps_before: softdeps[n].0.clone(),
            softdeps_after: softdeps[n].1.clone(),
            aliases: alias_lists[n].clone(),
        }).collect();
        let built_in = (0..2).map(|n| BuiltIn { name: format!("b{n}"), aliases: alias_lists[8 + n].clone() }).collect();
        IndexContent { kernel_release: release, modules, built_in }
    }
}

proptest! {
    #[test]
    fn a_written_index_is_read_back(content in content()) {
        let text = content.to_text().unwrap();
        prop_assert_eq!(IndexContent::parse(&text).unwrap(), content);
    }

    #[test]
    fn a_cut_text_is_never_accepted(cut in 0usize..GOOD.len() - 1) {
        prop_assert!(IndexContent::parse(&GOOD[..cut]).is_err());
    }
}
