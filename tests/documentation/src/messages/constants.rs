//! Collects the constants whose texts are in messages.

use std::collections::BTreeMap;

use anyhow::Result;
use syn::visit::{self, Visit};
use syn::{Expr, Ident, ImplItemConst, ItemConst, ItemFn, ItemMod, Lit};

use super::collect::is_of_tests;

/// The texts of constants, by the names of the constants.
pub type Constants = BTreeMap<String, String>;

/// The constants with a text in a source file.
pub fn constants_of(source: &str) -> Result<Constants> {
    let mut found = ConstantTexts::default();
    found.visit_file(&syn::parse_file(source)?);
    Ok(found.0)
}

#[derive(Default)]
struct ConstantTexts(Constants);

impl ConstantTexts {
    fn add(&mut self, name: &Ident, value: &Expr) {
        if let Expr::Lit(literal) = value
            && let Lit::Str(text) = &literal.lit
        {
            self.0.insert(name.to_string(), text.value());
        }
    }
}

impl<'ast> Visit<'ast> for ConstantTexts {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_of_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        if !is_of_tests(&function.attrs) {
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_item_const(&mut self, item: &'ast ItemConst) {
        self.add(&item.ident, &item.expr);
    }

    fn visit_impl_item_const(&mut self, item: &'ast ImplItemConst) {
        self.add(&item.ident, &item.expr);
    }
}
