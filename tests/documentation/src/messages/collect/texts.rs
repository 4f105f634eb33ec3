//! What an expression of the source can say.

use syn::punctuated::Punctuated;
use syn::{Block, Expr, Lit, Stmt, Token};

use super::{Collector, OR, first_literal, is_message, is_sentence, is_wrapper};

impl Collector<'_> {
    pub(super) fn local(&self, name: &str) -> Option<&[String]> {
        let mut locals = self.function.locals.iter().rev();
        let local = locals.find(|(local, _)| local == name);
        local.map(|(_, texts)| texts.as_slice())
    }

    /// The text of a constant if it is a sentence. The name of a shorter constant says
    /// more than its text, so it stays a placeholder.
    fn constant(&self, name: &str) -> Option<&str> {
        let text = self.constants.get(name)?;
        is_sentence(text).then_some(text.as_str())
    }

    /// The texts that the operator can read for a text of the source: its constants are
    /// replaced, and if it begins with a local variable, there is one text for each
    /// text of the variable.
    pub(super) fn expanded(&self, text: &str) -> Vec<String> {
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

    pub(super) fn with_constants(&self, text: &str) -> String {
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

    /// The texts that an expression can have, as far as they are literals in the
    /// expression or in the function's local variables.
    pub(super) fn texts(&self, expression: &Expr) -> Vec<String> {
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
    pub(super) fn texts_of_block(&self, block: &Block) -> Vec<String> {
        match block.stmts.last() {
            Some(Stmt::Expr(result, None)) => self.texts(result),
            _ => Vec::new(),
        }
    }

    /// The texts of an argument, or of the result of a closure.
    pub(super) fn texts_of_argument(&self, argument: Option<&Expr>) -> Vec<String> {
        match argument {
            Some(Expr::Closure(closure)) => self.texts(&closure.body),
            Some(text) => self.texts(text),
            None => Vec::new(),
        }
    }

    /// The remedies that an expression can have, in one text.
    pub(super) fn remedy(&self, expression: Option<&Expr>) -> String {
        let texts = expression.map(|text| self.texts(text));
        texts.unwrap_or_default().join(OR)
    }
}
