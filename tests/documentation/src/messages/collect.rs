//! Collects the errors and warnings of a source file.
//!
//! A message is the text of a `Failure`, of a variant with `#[error]`, of `anyhow`, or of
//! a warning. A text that a variable brings from elsewhere is listed where it is made.

use anyhow::{Context as _, Result};
use proc_macro2::TokenTree;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ItemFn, ItemMod, Lit, Macro};

/// How the program treats what the message says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// With the name of its class in Ironic's JSON, if it has one of its own.
    Error(Option<String>),
    /// One of all faults of a document, a command line or a medium.
    Fault,
    Warning,
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

/// The messages in the text of a source file.
pub fn messages_of(source: &str) -> Result<Vec<Message>> {
    let file = syn::parse_file(source)?;
    let mut collector = Collector {
        makers: makers(&file),
        ..Collector::default()
    };
    collector.visit_file(&file);
    collector.found.sort();
    collector.found.dedup();
    Ok(collector.found)
}

/// The functions of the file that make a failure of a text.
fn makers(file: &syn::File) -> Vec<String> {
    let functions = file.items.iter().filter_map(|item| match item {
        syn::Item::Fn(function) => Some(function),
        _ => None,
    });
    let makers = functions.filter(|function| {
        matches!(&function.sig.output, syn::ReturnType::Type(_, of)
            if matches!(&**of, syn::Type::Path(path) if path.path.is_ident("Failure")))
    });
    makers
        .map(|function| function.sig.ident.to_string())
        .collect()
}

#[derive(Default)]
struct Collector {
    makers: Vec<String>,
    found: Vec<Message>,
    /// The texts of the local variables of a function: `let details = format!(...)`.
    locals: Vec<(String, String)>,
}

impl Collector {
    fn add(&mut self, text: String, kind: Kind) -> Option<&mut Message> {
        let letters = text.split(['{', '}']).step_by(2);
        let has_letters = letters.flat_map(str::chars).any(|c| c.is_alphabetic());
        if !has_letters || is_part(&text) {
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

    /// The text that an expression is made of, if it is written here.
    fn text(&self, expression: &Expr) -> Option<String> {
        match expression {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            Expr::Macro(call) => first_literal(&call.mac),
            Expr::Reference(reference) => self.text(&reference.expr),
            Expr::MethodCall(call)
                if matches!(
                    call.method.to_string().as_str(),
                    "to_owned" | "into" | "to_string"
                ) =>
            {
                self.text(&call.receiver)
            }
            Expr::Path(path) => {
                let name = path.path.get_ident()?.to_string();
                let locals = self.locals.iter().rev();
                { locals }
                    .find(|(local, _)| *local == name)
                    .map(|(_, text)| text.clone())
            }
            _ => None,
        }
    }

    /// The message of a call that makes a failure.
    fn failure(&mut self, call: &syn::ExprCall) -> Option<Message> {
        let Expr::Path(function) = &*call.func else {
            return None;
        };
        let names: Vec<String> = { function.path.segments.iter() }
            .map(|segment| segment.ident.to_string())
            .collect();
        let (class, details) = match &names[..] {
            [of, name] if of == "Failure" && name == "new" => {
                let class = match call.args.first() {
                    Some(Expr::Path(path)) => { path.path.segments.last() }
                        .map(|last| class_name(&last.ident.to_string()).to_owned()),
                    _ => None,
                };
                (class, call.args.get(1)?)
            }
            [of, name] if of == "Failure" => (class_of(name), call.args.first()?),
            [name] if self.makers.contains(name) => (None, call.args.first()?),
            _ => return None,
        };
        let text = self.text(details)?;
        self.add(text, Kind::Error(class)).cloned()
    }
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

fn is_of_tests(attributes: &[Attribute]) -> bool {
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

impl<'ast> Visit<'ast> for Collector {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_of_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        if !is_of_tests(&function.attrs) {
            visit::visit_item_fn(self, function);
            self.locals.clear();
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if let (syn::Pat::Ident(name), Some(init)) = (&local.pat, &local.init)
            && let Some(text) = self.text(&init.expr)
        {
            self.locals.push((name.ident.to_string(), text));
        }
        visit::visit_local(self, local);
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

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let before = self.found.len();
        visit::visit_expr_method_call(self, call);
        let name = call.method.to_string();
        match name.as_str() {
            // The failure is the receiver, so it is the first that the visit has found.
            "hint" => {
                let remedy = call.args.first().and_then(|text| self.text(text));
                if let (Some(message), Some(remedy)) = (self.found.get_mut(before), remedy) {
                    message.remedy = remedy;
                }
            }
            "permanently" => {
                if let Some(message) = self.found.get_mut(before) {
                    message.is_permanent = true;
                }
            }
            "push" => {
                let text = call.args.first().and_then(|text| self.text(text));
                if let (Some(kind), Some(text)) = (kind_of_list(&call.receiver), text) {
                    self.add(text, kind);
                }
            }
            "context" | "with_context" => {
                let text = match call.args.first() {
                    Some(Expr::Closure(closure)) => self.text(&closure.body),
                    Some(text) => self.text(text),
                    None => None,
                };
                if let Some(text) = text {
                    self.add(text, Kind::Error(None));
                }
            }
            _ => {}
        }
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        self.failure(call);
        visit::visit_expr_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        let name = call.path.segments.last().map(|last| last.ident.to_string());
        let kind = match name.as_deref() {
            Some("warn") => Kind::Warning,
            Some("error" | "bail" | "anyhow" | "ensure") => Kind::Error(None),
            _ => return,
        };
        if let Some(text) = first_literal(call) {
            self.add(text, kind);
        }
    }
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
    use super::*;

    fn found(body: &str) -> Vec<(String, Kind, String, bool)> {
        let source = format!("fn fault(d: &str) -> Failure {{ todo!() }} fn a() {{ {body} }}");
        let messages = messages_of(&source).unwrap();
        messages
            .into_iter()
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
        let message = messages_of(source).unwrap().remove(0);
        assert_eq!(
            (message.text.as_str(), message.meaning.as_str()),
            ("no {0}", "From there.")
        );
        let part = "enum What { #[error(\"its end\")] End }";
        assert_eq!(messages_of(part).unwrap(), []);
        let tests = "#[cfg(test)] mod tests { fn a() { Failure::other(\"x\") } }";
        assert_eq!(messages_of(tests).unwrap(), []);
    }
}
