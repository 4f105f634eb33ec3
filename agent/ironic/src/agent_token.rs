//! The secret that the agent and the conductor share.
//!
//! Ironic sends the token only once: on the kernel command line with virtual media,
//! otherwise in the first answer to a lookup. Later answers contain asterisks instead.

use landfall_sys::state_file::StateFile;

/// The text that Ironic sends in place of a token that it has already sent.
const ALREADY_SENT: &str = "******";
/// The minimum length of a token in bytes. A shorter text can be guessed.
const SHORTEST: usize = 32;

/// The token if it is known. It is kept across a restart of the agent.
pub struct AgentToken {
    token: Option<String>,
    file: StateFile,
}

/// The reason why there is no usable token.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoToken {
    /// Ironic has already sent the token, to another boot or another machine.
    #[error(
        "Ironic has already given this node's token to an earlier boot of this machine, or to another machine with one of its MAC addresses -- power the node off and on through Ironic"
    )]
    AlreadySent,
    /// Ironic sent a text that is too short for a token. Holds its length.
    #[error("expected a token of at least {SHORTEST} characters from Ironic, found {0}")]
    TooShort(usize),
    /// Ironic sent no token, because it is too old.
    #[error("Ironic sent no token, and this agent does not serve commands without a token")]
    Missing,
}

impl AgentToken {
    /// Loads the token that the agent stored before a restart. If there is none, uses
    /// `given`. Ignores a token of fewer than 32 characters.
    pub fn restore(file: StateFile, given: Option<&str>) -> Self {
        let kept = match file.load() {
            Ok(bytes) => bytes.and_then(|bytes| String::from_utf8(bytes).ok()),
            Err(error) => {
                tracing::warn!("cannot read the stored token: {error}");
                None
            }
        };
        let is_usable = |token: &String| token.len() >= SHORTEST;
        let given = given.map(str::to_owned);
        Self {
            token: { kept.filter(is_usable) }.or_else(|| given.filter(is_usable)),
            file,
        }
    }

    /// Stores the token from a lookup answer and returns the token to use.
    ///
    /// # Errors
    /// If there is no usable token.
    pub(super) fn learn(&mut self, answered: Option<&str>) -> Result<&str, NoToken> {
        match answered {
            Some(ALREADY_SENT) => self.token.as_deref().ok_or(NoToken::AlreadySent),
            Some(token) if token.len() >= SHORTEST => {
                self.file.store_or_warn(token.as_bytes());
                Ok(self.token.insert(token.to_owned()))
            }
            Some(short) => self.token.as_deref().ok_or(NoToken::TooShort(short.len())),
            None => self.token.as_deref().ok_or(NoToken::Missing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn token(dir: &tempfile::TempDir, given: Option<&str>) -> AgentToken {
        AgentToken::restore(StateFile::new(dir.path(), "token"), given)
    }

    #[test]
    fn a_restarted_agent_goes_on_with_the_token_it_kept() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(token(&dir, None).learn(Some(TOKEN)), Ok(TOKEN));
        assert_eq!(token(&dir, None).learn(Some(ALREADY_SENT)), Ok(TOKEN));
    }

    #[test]
    fn a_damaged_stored_token_does_not_hide_the_given_one() {
        let dir = tempfile::tempdir().unwrap();
        StateFile::new(dir.path(), "token").store_or_warn(b"damaged");
        assert_eq!(
            token(&dir, Some(TOKEN)).learn(Some(ALREADY_SENT)),
            Ok(TOKEN)
        );
    }

    #[test]
    fn a_masked_token_without_a_stored_one_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(
            token(&dir, None).learn(Some(ALREADY_SENT)),
            Err(NoToken::AlreadySent)
        );
    }

    #[test]
    fn token_given_beforehand_stands_when_lookup_shows_asterisks() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(
            token(&dir, Some(TOKEN)).learn(Some(ALREADY_SENT)),
            Ok(TOKEN)
        );
    }

    #[test]
    fn short_tokens_are_no_secrets() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(
            token(&dir, Some("short")).learn(Some("abc")),
            Err(NoToken::TooShort(3))
        );
        assert_eq!(token(&dir, None).learn(None), Err(NoToken::Missing));
    }
}
