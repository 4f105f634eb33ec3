//! Reads a guest's screen, and waits for texts on it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde_json::json;

use super::Guest;
use crate::artifacts;
use crate::example_screen::ExampleScreen;
use crate::lab::Lab;
use crate::vm::framebuffer::{Font, Picture};
use crate::vm::screen_text::ScreenText;

/// The size of the picture that QEMU makes of a VGA text console: 80 by 25 characters of 9
/// by 16 pixels.
const VGA_TEXT_MODE: (usize, usize) = (720, 400);

impl Guest {
    /// Returns the characters in the memory of the VGA text screen, and saves a picture
    /// of the screen next to the journal.
    pub async fn vga_text(&mut self, picture: &Path) -> Result<String> {
        let memory = self.vga_memory().await?;
        self.screendump(picture, "png").await?;
        Ok(memory.characters)
    }

    async fn vga_memory(&mut self) -> Result<ScreenText> {
        let file = tempfile::NamedTempFile::new()?;
        let dump = json!({"val": 0xb_8000, "size": 0x8000, "filename": file.path()});
        self.qmp.execute("pmemsave", dump).await?;
        Ok(ScreenText::of_vga(&std::fs::read(file.path())?))
    }

    async fn screendump(&mut self, file: &Path, format: &str) -> Result<()> {
        let arguments = json!({"filename": file, "format": format});
        self.qmp.execute("screendump", arguments).await.map(drop)
    }

    /// The characters on the screen, in text mode or on a framebuffer.
    async fn screen_text(&mut self) -> Result<ScreenText> {
        let file = tempfile::NamedTempFile::new()?;
        self.screendump(file.path(), "ppm").await?;
        let picture = Picture::parse(&std::fs::read(file.path())?)?;
        if (picture.width, picture.height) == VGA_TEXT_MODE {
            return self.vga_memory().await;
        }
        let font = Font::read(&artifacts::console_font()?)?;
        let rows = picture.rows(&font);
        Ok(ScreenText {
            columns: rows.first().map_or(1, |row| row.chars().count()),
            rows: rows.len(),
            characters: rows.concat(),
        })
    }

    /// Waits until the status screen shows the same as the example `NAME.screen`, apart
    /// from values that differ between two machines. The picture `TEST.NAME.png` is kept
    /// next to the test's journal.
    pub async fn shows_example(&mut self, lab: &Lab, name: &str, limit: Duration) -> Result<()> {
        let example = ExampleScreen::read(name)?;
        let missing = |screen: &str| example.missing_on(screen);
        self.until_status(lab, name, &missing, limit).await
    }

    /// Waits until the status screen shows all these texts. Lines may break inside a
    /// text. The picture `TEST.WHAT.png` is kept next to the test's journal.
    pub async fn shows(
        &mut self,
        lab: &Lab,
        what: &str,
        texts: &[&str],
        limit: Duration,
    ) -> Result<()> {
        let missing = |screen: &str| {
            let missing = texts.iter().filter(|text| !screen.contains(**text));
            missing.map(|text| (*text).to_owned()).collect::<Vec<_>>()
        };
        self.until_status(lab, what, &missing, limit).await
    }

    /// Waits until a status screen lacks nothing. `missing` returns the texts that a
    /// screen lacks. Each screen is saved as the picture `TEST.WHAT.png`.
    async fn until_status(
        &mut self,
        lab: &Lab,
        what: &str,
        missing: &(dyn Fn(&str) -> Vec<String> + Sync),
        limit: Duration,
    ) -> Result<()> {
        let picture = lab.log_path(what).with_extension("png");
        std::fs::create_dir_all(picture.parent().unwrap_or(Path::new(".")))?;
        let start = tokio::time::Instant::now();
        loop {
            let screens = self.screen_text().await?.status_screens();
            self.screendump(&picture, "png").await?;
            if screens.iter().any(|screen| missing(screen).is_empty()) {
                return Ok(());
            }
            let lacking = screens.last().map(|screen| missing(screen));
            ensure!(
                start.elapsed() < limit,
                "expected on the screen, but missing: {lacking:#?}; found {screens:#?}"
            );
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Waits until the VGA text screen shows the text, and saves the screen as a
    /// picture.
    pub async fn until_screen(
        &mut self,
        picture: &Path,
        text: &str,
        limit: Duration,
    ) -> Result<()> {
        let start = tokio::time::Instant::now();
        loop {
            let screen = self.vga_text(picture).await?;
            if screen.contains(text) {
                return Ok(());
            }
            if start.elapsed() > limit {
                bail!("{text:?} is not on the screen: {screen}");
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}
