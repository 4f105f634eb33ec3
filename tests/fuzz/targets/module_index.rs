#![no_main]

use landfall_module_index::{Index, IndexContent};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // The first line is a modalias to look up in the index after it.
    let text = String::from_utf8_lossy(data);
    let (alias, text) = text.split_once('\n').unwrap_or(("", &text));
    let Ok(content) = IndexContent::parse(text) else {
        return;
    };
    let written = content.to_text().expect("what was read can be written");
    assert_eq!(IndexContent::parse(&written).as_ref(), Ok(&content));
    let index = Index::new(content);
    let _ = index.resolve(alias);
    let _ = index.load_order(index.modules_for(alias));
    let _ = index.load_order(index.modules().map(|(id, _)| id));
});
