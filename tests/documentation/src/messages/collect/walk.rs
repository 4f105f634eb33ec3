//! Visits the source of a file, and adds each message.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprCall, ImplItemFn, ItemFn, ItemMod, Macro};

use super::*;

impl<'ast> Visit<'ast> for Collector<'_> {
    /// Documentation and the texts of help are no messages.
    fn visit_attribute(&mut self, _attribute: &'ast Attribute) {}

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_of_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        if !is_of_tests(&function.attrs) {
            let outer = self.enter(&function.sig);
            visit::visit_item_fn(self, function);
            self.leave(&function.block, outer);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if !is_of_tests(&function.attrs) {
            let outer = self.enter(&function.sig);
            visit::visit_impl_item_fn(self, function);
            self.leave(&function.block, outer);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        let name = name_of_local(&local.pat);
        let before = self.found.len();
        if let (Some(name), Some(init)) = (&name, &local.init) {
            let texts = self.texts(&init.expr);
            if !texts.is_empty() {
                self.function.locals.push((name.clone(), texts));
            }
        }
        visit::visit_local(self, local);
        if let Some(name) = name
            && self.found.len() == before + 1
        {
            self.function.failures.push((name, before));
        }
    }

    fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
        self.with_remedy.extend(with_remedy(literal.value()));
    }

    /// The comment of an enum says what all its variants are.
    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        let kind = kind_of_type(&item.attrs);
        for variant in &item.variants {
            self.add_declared(&variant.attrs, kind.clone());
        }
        visit::visit_item_enum(self, item);
    }

    /// An error without variants is a struct.
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.add_declared(&item.attrs, kind_of_type(&item.attrs));
        visit::visit_item_struct(self, item);
    }

    fn visit_expr_return(&mut self, result: &'ast syn::ExprReturn) {
        visit::visit_expr_return(self, result);
        if self.function.message_kind.is_some()
            && let Some(text) = &result.expr
        {
            for text in self.texts(text) {
                self.add_sentence(text, Kind::Reason);
            }
        }
    }

    /// The trouble of a NIC is on the screen.
    fn visit_expr_assign(&mut self, assignment: &'ast syn::ExprAssign) {
        if let Expr::Field(field) = &*assignment.left
            && matches!(&field.member, Member::Named(name) if name == "trouble")
        {
            for text in self.texts(&assignment.right) {
                self.add_reason(text);
            }
        }
        visit::visit_expr_assign(self, assignment);
    }

    fn visit_expr_struct(&mut self, value: &'ast syn::ExprStruct) {
        visit::visit_expr_struct(self, value);
        let field = |wanted: &str| {
            let mut fields = value.fields.iter();
            let field =
                fields.find(|field| matches!(&field.member, Member::Named(name) if name == wanted));
            field.map(|field| &field.expr)
        };
        let last = value.path.segments.last();
        let is_failure = last.is_some_and(|last| last.ident == "Failure");
        let text = field(if is_failure { "details" } else { "cause" });
        let texts = text.map_or_else(Vec::new, |text| self.texts(text));
        let remedy = self.remedy(field("hint").or_else(|| field("remedy")));
        let class = field("class").and_then(class_in);
        for text in texts {
            let message = match is_failure {
                true => self.add(text, Kind::Error(class.clone())),
                false => self.add_reason(text),
            };
            if let Some(message) = message {
                message.remedy.clone_from(&remedy);
            }
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let before = self.found.len();
        visit::visit_expr_method_call(self, call);
        let name = call.method.to_string();
        match name.as_str() {
            "hint" => {
                let remedy = self.remedy(call.args.first());
                self.add_remedy(remedy, before, &call.receiver);
            }
            "permanently" => {
                if let Some(message) = self.found.get_mut(before) {
                    message.is_permanent = true;
                }
            }
            "push" => {
                if let Some(kind) = kind_of_list(&call.receiver) {
                    for text in self.texts_of_argument(call.args.first()) {
                        self.add(text, kind.clone());
                    }
                }
            }
            "context" | "with_context" => {
                for text in self.texts_of_argument(call.args.first()) {
                    self.add(text, Kind::Error(None));
                }
            }
            "ok_or" | "ok_or_else" | "map_err" if self.function.errors_are_texts => {
                for text in self.texts_of_argument(call.args.first()) {
                    self.add_reason(text);
                }
            }
            _ => {
                let Some((_, kind)) = REPORTS.iter().find(|(report, _)| *report == name) else {
                    return;
                };
                let texts = { call.args.iter().rev() }
                    .map(|argument| self.texts(argument))
                    .find(|texts| !texts.is_empty());
                for text in texts.unwrap_or_default() {
                    self.add_sentence(text, kind.clone());
                }
            }
        }
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        self.failure(call);
        visit::visit_expr_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        let name = call.path.segments.last().map(|last| last.ident.to_string());
        let name = name.unwrap_or_default();
        if QUIET.contains(&name.as_str()) {
            return;
        }
        let literals = literals(call.tokens.clone());
        self.with_remedy
            .extend(literals.into_iter().filter_map(with_remedy));
        let kind = match name.as_str() {
            "warn" => Kind::Warning,
            "error" | "bail" | "anyhow" | "ensure" => Kind::Error(None),
            _ => return,
        };
        if let Some(text) = first_literal(call) {
            for text in self.expanded(&text) {
                self.add(text, kind.clone());
            }
        }
    }
}

impl Collector<'_> {
    /// Adds a remedy to the first message that the visit of the receiver has found. If
    /// there is none and the receiver is a variable, adds the remedy to the variable's
    /// message.
    fn add_remedy(&mut self, remedy: String, before: usize, receiver: &Expr) {
        if remedy.is_empty() {
            return;
        }
        if let Some(message) = self.found.get_mut(before) {
            message.remedy = remedy;
            return;
        }
        let Expr::Path(path) = receiver else {
            return;
        };
        let Some(name) = path.path.get_ident() else {
            return;
        };
        let mut failures = self.function.failures.iter().rev();
        let failure = failures.find(|(failure, _)| name == failure);
        if let Some(message) = failure.and_then(|(_, index)| self.found.get_mut(*index)) {
            if !message.remedy.is_empty() {
                message.remedy.push_str(OR);
            }
            message.remedy.push_str(&remedy);
        }
    }
}

/// All strings in the tokens of a macro.
fn literals(tokens: TokenStream) -> Vec<String> {
    let texts = tokens.into_iter().flat_map(|token| match token {
        TokenTree::Literal(literal) => {
            let text = syn::parse_str::<syn::LitStr>(&literal.to_string());
            text.map(|text| text.value()).into_iter().collect()
        }
        TokenTree::Group(group) => literals(group.stream()),
        TokenTree::Ident(_) | TokenTree::Punct(_) => Vec::new(),
    });
    texts.collect()
}

fn with_remedy(text: String) -> Option<String> {
    text.contains(BEFORE_REMEDY).then_some(text)
}

fn kind_of_list(expression: &Expr) -> Option<Kind> {
    let name = match expression {
        Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
        Expr::Field(field) => match &field.member {
            syn::Member::Named(name) => Some(name.to_string()),
            syn::Member::Unnamed(_) => None,
        },
        _ => None,
    };
    let name = name?;
    let list = LISTS.iter().find(|(list, _)| *list == name);
    list.map(|(_, kind)| kind.clone())
}
