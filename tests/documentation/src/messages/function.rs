//! Finds out by its name and type whether a function returns the texts of messages.

use syn::{GenericArgument, Ident, PathArguments, ReturnType, Signature, Type};

use super::collect::Kind;

/// The functions whose result says why something fails, or what the program does about it.
const SAYING: [&str; 30] = [
    "bad_name",
    "condition",
    "cut_off",
    "difference",
    "duplicate_trouble",
    "exists",
    "explain",
    "fault",
    "has_no",
    "ignored",
    "implausible",
    "loss_to_sets",
    "missing",
    "missing_disks",
    "missing_nics",
    "no_answer",
    "not_of_an_operator",
    "not_supported_yet",
    "not_the_file",
    "proves_nothing",
    "reason",
    "replaced_config",
    "unclear_hints",
    "unknown",
    "warning",
    "why",
    "why_not",
    "why_untouchable",
    "word",
    "why_network_stays",
];

/// What the collector knows of the function that it is in.
#[derive(Default)]
pub(super) struct Function {
    /// The texts of its local variables: `let details = format!(...)`.
    pub(super) locals: Vec<(String, Vec<String>)>,
    /// The messages of the function's local variables, as indices: `let failure =
    /// Failure::other(...)`.
    pub(super) failures: Vec<(String, usize)>,
    /// Whether it returns a `Result` whose errors are texts.
    pub(super) errors_are_texts: bool,
    /// The kind of the messages that the function returns; `None` if it returns none.
    pub(super) message_kind: Option<Kind>,
}

impl Function {
    pub(super) fn of(signature: &Signature) -> Self {
        let ReturnType::Type(_, output) = &signature.output else {
            return Self::default();
        };
        let is_saying = SAYING.contains(&signature.ident.to_string().as_str());
        let message_kind = match is_saying {
            true if is_text_or_none(output) => Some(Kind::Reason),
            true if is_list_of_texts(output) => Some(Kind::Warning),
            _ => None,
        };
        let errors_are_texts = match name_and_arguments(output) {
            Some((name, arguments)) if name == "Result" => arguments
                .get(1)
                .is_some_and(|error| is_text(error) || is_list_of_texts(error)),
            _ => false,
        };
        Self {
            errors_are_texts,
            message_kind,
            ..Self::default()
        }
    }
}

/// The last word of a type and its type arguments: `Result`, `u8` and `String`.
fn name_and_arguments(of: &Type) -> Option<(&Ident, Vec<&Type>)> {
    let Type::Path(path) = of else {
        return None;
    };
    let last = path.path.segments.last()?;
    let arguments = match &last.arguments {
        PathArguments::AngleBracketed(list) => { list.args.iter() }
            .filter_map(|argument| match argument {
                GenericArgument::Type(of) => Some(of),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    };
    Some((&last.ident, arguments))
}

/// `String`, `&str` or `Cow<str>`
fn is_text(of: &Type) -> bool {
    if let Type::Reference(reference) = of {
        return name_and_arguments(&reference.elem).is_some_and(|(name, _)| name == "str");
    }
    name_and_arguments(of).is_some_and(|(name, _)| name == "String" || name == "Cow")
}

fn is_text_or_none(of: &Type) -> bool {
    is_text(of)
        || name_and_arguments(of).is_some_and(|(name, arguments)| {
            name == "Option" && arguments.iter().any(|inner| is_text(inner))
        })
}

fn is_list_of_texts(of: &Type) -> bool {
    name_and_arguments(of).is_some_and(|(name, arguments)| {
        name == "Vec" && arguments.iter().any(|element| is_text(element))
    })
}
