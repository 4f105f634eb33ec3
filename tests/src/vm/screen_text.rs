//! The characters on a guest's screen.

/// The text at the start of the status screen.
const STATUS_TITLE: &str = " Landfall ";

/// Rows of characters, either of one screen or of the whole memory of a VGA text
/// console. In this memory the kernel's driver scrolls by moving the start of the
/// screen, so older rows stay above it.
pub(super) struct ScreenText {
    pub(super) columns: usize,
    /// The number of rows of one screen.
    pub(super) rows: usize,
    pub(super) characters: String,
}

impl ScreenText {
    /// The memory of a VGA text console (0xb8000). Each character is followed by its
    /// colours.
    pub(super) fn of_vga(memory: &[u8]) -> Self {
        let characters = memory.iter().step_by(2);
        Self {
            columns: 80,
            rows: 25,
            characters: characters.map(|byte| char::from(*byte)).collect(),
        }
    }

    /// The words of each status screen, without their line breaks. An older screen may
    /// be above the current one.
    pub(super) fn status_screens(&self) -> Vec<String> {
        { self.characters.match_indices(STATUS_TITLE) }
            .map(|(at, _)| self.unbroken(&self.characters[at..]))
            .collect()
    }

    /// The words of the screen that begins here. The title begins in the first column.
    fn unbroken(&self, from: &str) -> String {
        let characters: Vec<char> = from.chars().take(self.columns * self.rows).collect();
        let rows: Vec<String> = { characters.chunks(self.columns) }
            .map(|row| row.iter().collect())
            .collect();
        let words: Vec<&str> = { rows.iter() }
            .flat_map(|row| row.split_whitespace())
            .collect();
        words.join(" ")
    }
}
