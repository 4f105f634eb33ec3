//! Collects the errors and warnings of a source file.
//!
//! A message is the text of a `Failure`, of a variant with `#[error]`, of `anyhow`, or
//! of a warning. If a variable brings a text from another place, the text is listed at
//! that place: as the error of a `Result` whose errors are texts, or as the result of a
//! function that says why something fails. A text with a remedy is a message wherever
//! it is, except in the progress that a program logs.

mod texts;
mod walk;

use std::mem;

use anyhow::{Context as _, Result};
use proc_macro2::TokenTree;
use syn::visit::Visit as _;
use syn::{Attribute, Block, Expr, ExprCall, Lit, Macro, Member, Pat, ReturnType, Signature, Type};

use super::constants::Constants;
use super::function::Function;

/// How the program treats what the message says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// With the name of its class in Ironic's JSON, if it has one of its own.
    Error(Option<String>),
    /// One entry in a list of all faults of a document, a command line or a medium.
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
    /// What the documentation of the variant adds, for a person who reads the message.
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

/// A reason contains one of these words. A text without them is often a name or an
/// expected value, and so only a part of messages.
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

/// Separates the remedies of one error. The cause of the error decides which remedy the
/// program prints.
const OR: &str = "; or: ";

/// The messages in the text of a source file. `constants` are those that the file can
/// use: its own, and those of other files.
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

/// The names of the functions in the file that return a `Failure`.
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

    /// Adds the text of the attribute `error`, which makes a type or a variant an
    /// error. The documentation of the type or variant is the meaning. `kind` is the
    /// kind of the type, see [`kind_of_type`].
    fn add_declared(&mut self, attributes: &[Attribute], kind: Kind) {
        let error = { attributes.iter() }.find(|attribute| attribute.path().is_ident("error"));
        if let Some(syn::Meta::List(list)) = error.map(|attribute| &attribute.meta) {
            let text = list.tokens.clone().into_iter().next();
            let text =
                text.and_then(|token| syn::parse_str::<syn::LitStr>(&token.to_string()).ok());
            let meaning = documentation(attributes);
            if let Some(message) = text.and_then(|text| self.add(text.value(), kind)) {
                message.meaning = without_held_values(&meaning);
            }
        }
    }

    /// Adds a text as a reason, if its length and its words show that it is a sentence.
    /// The source does not mark it as a message.
    fn add_reason(&mut self, text: String) -> Option<&mut Message> {
        let has_verb = text
            .split_whitespace()
            .any(|word| VERBS.contains(&word.trim_matches(['.', ',', ';', ':', '(', ')'])));
        match has_verb && is_sentence(&text) {
            true => self.add(text, Kind::Reason),
            false => None,
        }
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

    /// Adds the messages that the function returns, and restores the state of the
    /// function around it.
    fn leave(&mut self, body: &Block, outer: Function) {
        if let Some(kind) = self.function.message_kind.clone() {
            for text in self.texts_of_block(body) {
                self.add_sentence(text, kind.clone());
            }
        }
        self.function = outer;
    }

    fn add_sentence(&mut self, text: String, kind: Kind) {
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
            // If the text begins with a variable, a known message may have the variable's
            // text in its place. So compare only the rest.
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

/// The name of the variable that a pattern binds, if it is the whole pattern.
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

/// The kind of the messages of a type. The code of the type does not show how the
/// program treats them, so the first line of the comment does: with the words `A
/// warning`, they are warnings.
fn kind_of_type(attributes: &[Attribute]) -> Kind {
    let first = comment_lines(attributes).next();
    match first.is_some_and(|line| line.contains(A_WARNING)) {
        true => Kind::Warning,
        false => Kind::Error(None),
    }
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
/// little to be a message.
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

/// These words in the first line of a type's comment mean that the program prints the
/// type's messages as warnings.
const A_WARNING: &str = "A warning";

/// Begins the sentences of a comment that are for callers: they describe the values
/// that the variant holds and the message shows.
pub(super) const HOLDS: &str = "Holds ";

/// The sentences of a variant's comment before those about what it holds.
fn without_held_values(comment: &str) -> String {
    let end = match comment.starts_with(HOLDS) {
        true => Some(0),
        false => comment.find(&format!(". {HOLDS}")).map(|at| at + 1),
    };
    comment[..end.unwrap_or(comment.len())].to_owned()
}

/// The text of the documentation comments, in one line.
fn documentation(attributes: &[Attribute]) -> String {
    let lines: Vec<String> = comment_lines(attributes).collect();
    lines.join(" ").trim().to_owned()
}

/// The lines of the documentation comments.
fn comment_lines(attributes: &[Attribute]) -> impl Iterator<Item = String> {
    attributes.iter().filter_map(|attribute| {
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
    })
}

#[cfg(test)]
mod tests;
