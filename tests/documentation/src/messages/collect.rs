//! Collects the errors and warnings of a source file.
//!
//! A message is the text of a `Failure`, of a variant with `#[error]`, of `anyhow`, or of
//! a warning. A text that a variable brings from elsewhere is listed where it is made: as
//! the error of a `Result` whose errors are texts, or as the result of a function that
//! says why something fails. A text with a remedy is a message wherever it stands, except
//! in the progress that a program logs.

use std::mem;

use anyhow::{Context as _, Result};
use proc_macro2::{TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, Expr, ExprCall, ImplItemFn, ItemFn, ItemMod, Lit, Macro, Member, Pat,
    ReturnType, Signature, Stmt, Token, Type,
};

use super::constants::Constants;
use super::function::Function;

/// How the program treats what the message says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// With the name of its class in Ironic's JSON, if it has one of its own.
    Error(Option<String>),
    /// One of all faults of a document, a command line or a medium.
    Fault,
    Warning,
    /// A text that other messages or the screen contain.
    Reason,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    /// With the placeholders of the source, like `{path}`.
    pub text: String,
    pub kind: Kind,
    /// What the documentation of the variant adds.
    pub meaning: String,
    pub remedy: String,
    pub is_permanent: bool,
}

/// The classes in the source of `failure.rs`: name in Ironic's JSON, meaning.
pub fn classes_of(source: &str) -> Result<Vec<(String, String)>> {
    let file = syn::parse_file(source)?;
    let class = file.items.iter().find_map(|item| match item {
        syn::Item::Enum(item) if item.ident == "Class" => Some(item),
        _ => None,
    });
    let variants = class.context("no enum Class")?.variants.iter();
    let classes = variants.map(|variant| {
        let name = class_name(&variant.ident.to_string()).to_owned();
        (name, documentation(&variant.attrs))
    });
    Ok(classes.collect())
}

/// The name of a class in Ironic's JSON, by its variant.
fn class_name(variant: &str) -> &str {
    match variant {
        "SoftwareRaidError" => "SoftwareRAIDError",
        same => same,
    }
}

/// The lists of strings that reach the operator, and what they are to the program.
const LISTS: [(&str, Kind); 4] = [
    ("warnings", Kind::Warning),
    ("remarks", Kind::Warning),
    ("faults", Kind::Fault),
    ("problems", Kind::Fault),
];

/// The methods that report the text in their last argument.
const REPORTS: [(&str, Kind); 4] = [
    ("fault", Kind::Fault),
    ("problem", Kind::Fault),
    ("complain", Kind::Warning),
    ("warn", Kind::Warning),
];

/// A reason has one of these words. A text without them is often a name, or what was
/// expected, and a part of messages only.
const VERBS: [&str; 22] = [
    "are", "cannot", "did", "do", "does", "ended", "ends", "expected", "found", "had", "has",
    "have", "is", "need", "needs", "never", "no", "not", "only", "was", "were", "without",
];

/// The macros whose texts are no messages: progress, and what only a bug prints.
const QUIET: [&str; 8] = [
    "assert",
    "assert_eq",
    "debug",
    "debug_assert",
    "info",
    "panic",
    "trace",
    "unreachable",
];

/// Stands between an error and its remedy.
const BEFORE_REMEDY: &str = " -- ";

/// Stands between the remedies of one error: which one is printed depends on its cause.
const OR: &str = "; or: ";

/// The messages in the text of a source file. It uses these constants, of its own and of
/// other files.
pub fn messages_of(source: &str, constants: &Constants) -> Result<Vec<Message>> {
    let file = syn::parse_file(source)?;
    let mut collector = Collector {
        makers: makers(&file),
        constants,
        found: Vec::new(),
        with_remedy: Vec::new(),
        function: Function::default(),
    };
    collector.visit_file(&file);
    let mut found = collector.finish();
    found.sort();
    found.dedup();
    Ok(found)
}

/// The functions of the file that make a failure of a text.
fn makers(file: &syn::File) -> Vec<String> {
    let functions = file.items.iter().filter_map(|item| match item {
        syn::Item::Fn(function) => Some(function),
        _ => None,
    });
    let makers = functions.filter(|function| {
        matches!(&function.sig.output, ReturnType::Type(_, of)
            if matches!(&**of, Type::Path(path) if path.path.is_ident("Failure")))
    });
    makers
        .map(|function| function.sig.ident.to_string())
        .collect()
}

struct Collector<'a> {
    makers: Vec<String>,
    constants: &'a Constants,
    found: Vec<Message>,
    /// All texts with a remedy.
    with_remedy: Vec<String>,
    function: Function,
}

impl Collector<'_> {
    fn add(&mut self, text: String, kind: Kind) -> Option<&mut Message> {
        if !is_message(&text) {
            return None;
        }
        self.found.push(Message {
            text,
            kind,
            meaning: String::new(),
            remedy: String::new(),
            is_permanent: false,
        });
        self.found.last_mut()
    }

    /// Adds a text of which the source does not say that it is a message.
    fn add_reason(&mut self, text: String) -> Option<&mut Message> {
        let has_verb = text
            .split_whitespace()
            .any(|word| VERBS.contains(&word.trim_matches(['.', ',', ';', ':', '(', ')'])));
        match has_verb && is_sentence(&text) {
            true => self.add(text, Kind::Reason),
            false => None,
        }
    }

    fn local(&self, name: &str) -> Option<&[String]> {
        let mut locals = self.function.locals.iter().rev();
        let local = locals.find(|(local, _)| local == name);
        local.map(|(_, texts)| texts.as_slice())
    }

    /// A short constant is a name, and says more as a placeholder.
    fn constant(&self, name: &str) -> Option<&str> {
        let text = self.constants.get(name)?;
        is_sentence(text).then_some(text.as_str())
    }

    /// A text of the source as the operator can read it: with the constants in it, and
    /// with each text of the local variable that it begins with.
    fn expanded(&self, text: &str) -> Vec<String> {
        let begin = text.strip_prefix('{').and_then(|rest| {
            let (name, rest) = rest.split_once('}')?;
            let texts = self.local(name)?;
            let all = texts.iter().all(|text| is_message(text));
            all.then_some((texts, rest))
        });
        match begin {
            Some((texts, rest)) => {
                let rest = self.with_constants(rest);
                texts.iter().map(|text| format!("{text}{rest}")).collect()
            }
            None => vec![self.with_constants(text)],
        }
    }

    fn with_constants(&self, text: &str) -> String {
        let mut result = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            result.push_str(before);
            let constant = after
                .split_once('}')
                .and_then(|(name, after)| Some((self.constant(name)?, after)));
            match constant {
                Some((text, after)) => {
                    result.push_str(text);
                    rest = after;
                }
                None => {
                    result.push('{');
                    rest = after;
                }
            }
        }
        result.push_str(rest);
        result
    }

    /// The texts that an expression can have, if they are written here.
    fn texts(&self, expression: &Expr) -> Vec<String> {
        match expression {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => self.expanded(&text.value()),
                _ => Vec::new(),
            },
            Expr::Macro(call) if call.mac.path.is_ident("vec") => {
                let elements = call
                    .mac
                    .parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated);
                let elements = elements.iter().flatten();
                elements.flat_map(|element| self.texts(element)).collect()
            }
            Expr::Macro(call) => match first_literal(&call.mac) {
                Some(text) => self.expanded(&text),
                None => Vec::new(),
            },
            Expr::Reference(reference) => self.texts(&reference.expr),
            Expr::Paren(inner) => self.texts(&inner.expr),
            Expr::MethodCall(call)
                if matches!(
                    call.method.to_string().as_str(),
                    "to_owned" | "into" | "to_string"
                ) =>
            {
                self.texts(&call.receiver)
            }
            Expr::Call(call) if matches!(&*call.func, Expr::Path(path) if is_wrapper(path)) => {
                let first = call.args.first();
                first.map_or_else(Vec::new, |text| self.texts(text))
            }
            Expr::Path(path) => self.texts_of_path(path),
            Expr::Block(block) => self.texts_of_block(&block.block),
            Expr::If(branches) => {
                let mut texts = self.texts_of_block(&branches.then_branch);
                if let Some((_, otherwise)) = &branches.else_branch {
                    texts.extend(self.texts(otherwise));
                }
                texts
            }
            Expr::Match(choice) => { choice.arms.iter() }
                .flat_map(|arm| self.texts(&arm.body))
                .collect(),
            _ => Vec::new(),
        }
    }

    fn texts_of_path(&self, path: &syn::ExprPath) -> Vec<String> {
        let local = path.path.get_ident();
        if let Some(texts) = local.and_then(|name| self.local(&name.to_string())) {
            return texts.to_vec();
        }
        let last = path.path.segments.last();
        let constant = last.and_then(|last| self.constant(&last.ident.to_string()));
        constant.map(str::to_owned).into_iter().collect()
    }

    /// The texts that the block results in.
    fn texts_of_block(&self, block: &Block) -> Vec<String> {
        match block.stmts.last() {
            Some(Stmt::Expr(result, None)) => self.texts(result),
            _ => Vec::new(),
        }
    }

    /// The texts of an argument, or of the result of a closure.
    fn texts_of_argument(&self, argument: Option<&Expr>) -> Vec<String> {
        match argument {
            Some(Expr::Closure(closure)) => self.texts(&closure.body),
            Some(text) => self.texts(text),
            None => Vec::new(),
        }
    }

    /// The remedies that an expression can have, in one text.
    fn remedy(&self, expression: Option<&Expr>) -> String {
        let texts = expression.map(|text| self.texts(text));
        texts.unwrap_or_default().join(OR)
    }

    /// Adds the messages of a call that makes a failure.
    fn failure(&mut self, call: &ExprCall) {
        let Expr::Path(function) = &*call.func else {
            return;
        };
        let names: Vec<String> = { function.path.segments.iter() }
            .map(|segment| segment.ident.to_string())
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (kind, text) = match names[..] {
            ["Failure", "new"] => {
                let class = match call.args.first() {
                    Some(Expr::Path(path)) => { path.path.segments.last() }
                        .map(|last| class_name(&last.ident.to_string()).to_owned()),
                    _ => None,
                };
                (Kind::Error(class), call.args.get(1))
            }
            ["Failure", name] => (Kind::Error(class_of(name)), call.args.first()),
            [name] if self.makers.iter().any(|maker| maker == name) => {
                (Kind::Error(None), call.args.first())
            }
            ["report", "warn"] => (Kind::Warning, call.args.first()),
            ["Err"] if self.function.errors_are_texts => (Kind::Reason, call.args.first()),
            // A step on the way to the service.
            ["StepResult", "failed"] | ["fail"] => (Kind::Reason, call.args.last()),
            [.., "Error", "other" | "new"] => (Kind::Reason, call.args.last()),
            _ => return,
        };
        for text in text.map_or_else(Vec::new, |text| self.texts(text)) {
            match kind {
                Kind::Reason => self.add_reason(text),
                _ => self.add(text, kind.clone()),
            };
        }
    }

    /// Adds what the function says, and restores what is known of the one around it.
    fn leave(&mut self, body: &Block, outer: Function) {
        if let Some(kind) = self.function.says.clone() {
            for text in self.texts_of_block(body) {
                self.add_said(text, kind.clone());
            }
        }
        self.function = outer;
    }

    fn add_said(&mut self, text: String, kind: Kind) {
        if is_sentence(&text) {
            self.add(text, kind);
        }
    }

    fn enter(&mut self, signature: &Signature) -> Function {
        mem::replace(&mut self.function, Function::of(signature))
    }

    /// All messages. A text with a remedy that no other rule has found is a reason.
    fn finish(mut self) -> Vec<Message> {
        for text in mem::take(&mut self.with_remedy) {
            let before = text.split(BEFORE_REMEDY).next().unwrap_or_default();
            if text.contains('\n') || !is_message(before) {
                continue;
            }
            let text = self.with_constants(&text);
            // The text of a variable in front may be known, and in the message.
            let tail = text.strip_prefix('{').and_then(|rest| {
                let (name, tail) = rest.split_once('}')?;
                name.starts_with(|c: char| c.is_ascii_lowercase())
                    .then_some(tail)
            });
            let is_known = self.found.iter().any(|message| {
                message.text.contains(&text)
                    || message.remedy == text
                    || tail.is_some_and(|tail| message.text.ends_with(tail))
            });
            if !is_known {
                self.add(text, Kind::Reason);
            }
        }
        let others: Vec<String> = { self.found.iter() }
            .filter(|message| message.kind != Kind::Reason)
            .map(|message| message.text.clone())
            .collect();
        self.found
            .retain(|message| message.kind != Kind::Reason || !others.contains(&message.text));
        self.found
    }
}

/// `Some(...)` and `String::from(...)` have the text of their argument.
fn is_wrapper(path: &syn::ExprPath) -> bool {
    let mut names = path.path.segments.iter().map(|segment| &segment.ident);
    match (names.next(), names.next(), names.next()) {
        (Some(name), None, None) => name == "Some",
        (Some(of), Some(name), None) => of == "String" && name == "from",
        _ => false,
    }
}

/// The variable that a pattern makes, if it makes only that.
fn name_of_local(pattern: &Pat) -> Option<String> {
    match pattern {
        Pat::Ident(name) => Some(name.ident.to_string()),
        Pat::Type(typed) => name_of_local(&typed.pat),
        _ => None,
    }
}

/// The class in the field `class` of a `Failure`: `Class::DeviceNotFound`.
fn class_in(value: &Expr) -> Option<String> {
    let Expr::Path(path) = value else {
        return None;
    };
    let last = path.path.segments.last()?;
    let is_variant = path.path.segments.len() > 1;
    is_variant.then(|| class_name(&last.ident.to_string()).to_owned())
}

/// Whether a text says enough to be a message.
fn is_message(text: &str) -> bool {
    let letters = text.split(['{', '}']).step_by(2);
    let has_letters = letters.flat_map(str::chars).any(|c| c.is_alphabetic());
    has_letters && !is_part(text)
}

/// Whether a text has the length of a sentence.
fn is_sentence(text: &str) -> bool {
    text.split_whitespace().count() > 2
}

/// The class of a failure by its constructor (agent/report/src/failure.rs).
fn class_of(constructor: &str) -> Option<String> {
    let class = match constructor {
        "invalid_params" => "InvalidCommandParamsError",
        "deployment" => "DeploymentError",
        "device_not_found" => "DeviceNotFound",
        "block_device" => "BlockDeviceError",
        "erasure" => "BlockDeviceEraseError",
        "image_download" => "ImageDownloadError",
        "invalid_image" => "InvalidImage",
        "image_write" => "ImageWriteError",
        _ => return None,
    };
    Some(class.to_owned())
}

/// Whether a text is only a part of messages: one or two words without a value say too
/// little to be one.
fn is_part(text: &str) -> bool {
    !text.contains('{') && text.split_whitespace().count() <= 2
}

/// The first string in a call like `format!("...", a)`.
fn first_literal(call: &Macro) -> Option<String> {
    call.tokens
        .clone()
        .into_iter()
        .find_map(|token| match token {
            TokenTree::Literal(literal) => syn::parse_str::<syn::LitStr>(&literal.to_string())
                .ok()
                .map(|text| text.value()),
            _ => None,
        })
}

pub(super) fn is_of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && matches!(&attribute.meta, syn::Meta::List(list) if list.tokens.to_string() == "test")
    })
}

/// The text of the documentation comments, in one line.
fn documentation(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| {
        let syn::Meta::NameValue(pair) = &attribute.meta else {
            return None;
        };
        match &pair.value {
            Expr::Lit(literal) if pair.path.is_ident("doc") => match &literal.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        }
    });
    lines.collect::<Vec<_>>().join(" ").trim().to_owned()
}

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

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        let error = { variant.attrs.iter() }.find(|attribute| attribute.path().is_ident("error"));
        if let Some(syn::Meta::List(list)) = error.map(|attribute| &attribute.meta) {
            let text = list.tokens.clone().into_iter().next();
            let text =
                text.and_then(|token| syn::parse_str::<syn::LitStr>(&token.to_string()).ok());
            let meaning = documentation(&variant.attrs);
            if let Some(message) = text.and_then(|text| self.add(text.value(), Kind::Error(None))) {
                message.meaning = meaning;
            }
        }
        visit::visit_variant(self, variant);
    }

    fn visit_expr_return(&mut self, result: &'ast syn::ExprReturn) {
        visit::visit_expr_return(self, result);
        if self.function.says.is_some()
            && let Some(text) = &result.expr
        {
            for text in self.texts(text) {
                self.add_said(text, Kind::Reason);
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
                    self.add_said(text, kind.clone());
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
    /// Adds a remedy to the message that the visit of the receiver has found first, or to
    /// the one in the variable that the receiver is.
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

#[cfg(test)]
mod tests {
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
    fn a_variant_means_what_its_documentation_says() {
        let source = "enum E { /// From\n/// there.\n#[error(\"no {0}\")] A(u8) }";
        let message = messages(source).remove(0);
        assert_eq!(
            (message.text.as_str(), message.meaning.as_str()),
            ("no {0}", "From there.")
        );
        let part = "enum What { #[error(\"its end\")] End }";
        assert_eq!(messages(part), []);
        let tests = "#[cfg(test)] mod tests { fn a() { Failure::other(\"x\") } }";
        assert_eq!(messages(tests), []);
    }
}
