use super::*;
use crate::content::{BuiltIn, IndexContent, Module};
use proptest::prelude::*;

/// Parses lines of the form `name: needs < before > after = aliases`. Each list
/// has words separated by spaces.
fn index(lines: &[&str]) -> Index {
    let mut content = IndexContent {
        kernel_release: "1".into(),
        ..IndexContent::default()
    };
    content.built_in.push(BuiltIn {
        name: "core".into(),
        aliases: vec!["crypto-core".into()],
    });
    for line in lines {
        let (name, rest) = line.split_once(':').unwrap();
        let mut module = Module {
            name: name.into(),
            path: format!("kernel/{name}.ko"),
            ..Module::default()
        };
        let mut kind = "needs";
        for word in rest.split_whitespace() {
            match (word, kind) {
                ("<" | ">" | "=", _) => kind = word,
                (name, "needs") => module.needs.push(name.into()),
                (name, "<") => module.softdeps_before.push(name.into()),
                (name, ">") => module.softdeps_after.push(name.into()),
                (name, _) => module.aliases.push(name.into()),
            }
        }
        content.modules.push(module);
    }
    Index::new(content)
}

/// The modules level by level.
fn order(lines: &[&str], wanted: &str) -> String {
    let index = index(lines);
    let wanted = wanted.split_whitespace();
    let levels = index.load_order(wanted.map(|name| index.find(name).unwrap()));
    let level = |ids: &Vec<ModuleId>| {
        ids.iter()
            .map(|&id| index.module(id).name.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    };
    levels.iter().map(level).collect::<Vec<_>>().join(" < ")
}

/// The columns: the purpose of the case, the modules, the wanted modules, and their
/// order.
const ORDERS: &str = "
    alone | a:, b: | a | a
    chain | a: b, b: c, c: | a | c < b < a
    diamond | a: b c, b: d, c: d, d: | a | d < b c < a
    two at once share | a: c, b: c, c: | a b | c < a b
    built-in dependency | a: core | a | a
    pre softdep | a: < b, b: | a | b < a
    post softdep | a: > b, b: | a | a < b
    post softdep with needs | a: > b, b: c, c: | a | a c < b
    softdep by alias | a: < crypto-x, b: = crypto-x, c: = crypto_x | a | b c < a
    softdep on a built-in alias | a: < crypto-core | a | a
    softdep that is missing | a: < gone > lost | a | a
    softdep on itself | a: < a | a | a
    softdeps in a circle | a: < b, b: < a | a | a < b
    softdep against a hard one | a: b, b: < a | a | b < a
    long circle cut once | a: < b, b: < c, c: < a | a | a < c < b
    hard circle | a: b, b: a | b | a < b
    nothing wanted | a: | |";

#[test]
fn table() {
    for row in ORDERS.lines().skip(1) {
        let columns: Vec<&str> = row.split('|').map(str::trim).collect();
        let modules: Vec<&str> = columns[1].split(", ").collect();
        assert_eq!(order(&modules, columns[2]), columns[3], "{}", columns[0]);
    }
}

proptest! {
    /// Arbitrary graphs, with cycles of softdeps: every module appears once, after
    /// its hard dependencies.
    #[test]
    fn order_is_complete_and_ends(edges in proptest::collection::vec((0u8..12, 0u8..12, 0u8..3), 0..60)) {
        let mut modules: Vec<Module> = (0..12)
            .map(|n| Module { name: format!("m{n}"), path: format!("m{n}.ko"), ..Module::default() })
            .collect();
        for (from, to, kind) in edges {
            let name = format!("m{to}");
            let module = &mut modules[usize::from(from)];
            match kind {
                // Dependencies lead only to lower numbers. So hard dependencies have no cycle,
                // as in a kernel.
                0 if to < from => module.needs.push(name),
                1 => module.softdeps_before.push(name),
                _ => module.softdeps_after.push(name),
            }
        }
        let index = Index::new(IndexContent { kernel_release: "1".into(), modules, built_in: vec![] });
        let wanted = index.find("m11").unwrap();
        let flat: Vec<ModuleId> = index.load_order([wanted]).into_iter().flatten().collect();
        let place = |id| flat.iter().position(|&other| other == id);
        prop_assert!(place(wanted).is_some());
        for (number, &id) in flat.iter().enumerate() {
            prop_assert_eq!(place(id), Some(number), "listed twice");
            for need in index.needs(id) {
                prop_assert!(place(need).unwrap() < number);
            }
        }
    }
}
