//! One host on the page.

use std::fmt::{self, Write as _};
use std::time::SystemTime;

use landfall_status_page::Text;

use super::Links;
use super::words::{ago, counted, percent, size};
use crate::host_store::HostPaths;
use crate::reads::FileRead;
use crate::request_path::Kind;
use crate::served_version::ServedVersion;

/// Everything that the page says about a host.
pub(super) struct HostEntry<'a> {
    pub(super) name: &'a str,
    pub(super) paths: &'a HostPaths,
    pub(super) served: &'a ServedVersion,
    pub(super) reads: &'a [FileRead],
}

impl HostEntry<'_> {
    pub(super) fn write(&self, out: &mut String, links: Links<'_>, now: SystemTime) -> fmt::Result {
        writeln!(out, "<article><h3>{}</h3><dl>", Text(self.name))?;
        self.write_image(out, links)?;
        out.push_str("<dt>Read</dt>");
        if self.reads.is_empty() {
            out.push_str("<dd class=\"dim\">not yet</dd>");
        }
        for read in self.reads {
            self.write_read(out, read, now)?;
        }
        out.push_str("<dt>Network</dt><dd><ul>");
        for line in self.served.network() {
            write!(out, "<li>{}</li>", Text(line))?;
        }
        out.push_str("</ul></dd></dl></article>\n");
        Ok(())
    }

    fn write_image(&self, out: &mut String, links: Links<'_>) -> fmt::Result {
        out.push_str("<dt>Image</dt><dd>");
        let paths = [
            (Kind::Iso, &self.paths.iso),
            (Kind::Initramfs, &self.paths.initramfs),
            (Kind::Ipxe, &self.paths.ipxe),
        ];
        for (kind, path) in paths {
            let label = label(kind);
            if kind == Kind::Ipxe
                && self
                    .served
                    .base
                    .script_fault(&self.served.version)
                    .is_some()
            {
                write!(out, "<span class=\"dim\">no {label}</span>")?;
                continue;
            }
            match links.to(path) {
                Some(url) => write!(out, "<a class=\"big\" href=\"{}\">{label}</a> ", Text(&url))?,
                None => write!(out, "<div>{label}: {}</div>", Text(path))?,
            }
        }
        out.push_str("</dd>\n");
        Ok(())
    }

    fn write_read(&self, out: &mut String, read: &FileRead, now: SystemTime) -> fmt::Result {
        let label = label(read.kind);
        let is_whole = read.read == read.size && !read.is_rough;
        let is_newest = read.etag.trim_matches('"').starts_with(&self.served.id);
        write!(
            out,
            "<dd><p>{label}: {}{}</p>\
             <progress aria-label=\"{label} of {}\" max=\"{}\" value=\"{}\"></progress>\
             <p class=\"dim\">{} by {}",
            amount(read, is_whole),
            if is_newest {
                ""
            } else {
                ", <span class=\"waiting\">of an earlier version</span>"
            },
            Text(self.name),
            read.size,
            read.read,
            counted(read.requests, "request"),
            read.last.client,
        )?;
        if !read.agent.is_empty() {
            write!(out, " ({})", Text(&read.agent))?;
        }
        let (time, date) = (
            ago(read.last.time, now),
            httpdate::fmt_http_date(read.last.time),
        );
        writeln!(out, ", the last one {time} ({date})</p></dd>")
    }
}

fn amount(read: &FileRead, is_whole: bool) -> String {
    let whole = size(read.size);
    if is_whole {
        return format!("<strong class=\"done\">100 %</strong>, all {whole}");
    }
    let about = if read.is_rough { "about " } else { "" };
    let percent = percent(read.read, read.size);
    format!(
        "<strong>{about}{percent} %</strong>, {} of {whole}",
        size(read.read)
    )
}

fn label(kind: Kind) -> &'static str {
    match kind {
        Kind::Iso => "ISO",
        Kind::Initramfs => "ramdisk",
        Kind::Ipxe => "iPXE script",
    }
}
