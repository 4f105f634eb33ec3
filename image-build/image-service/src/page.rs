//! `/`: the page for browsers. It shows the hosts with their images and networks and what
//! clients have read, for up to 50 hosts at a time, without secrets: neither kernel
//! arguments nor files of hosts are on it.

mod host;
mod query;
mod words;

use std::fmt::{self, Write as _};
use std::time::{Duration, SystemTime};

use axum::http::Uri;
use landfall_status_page::{END, Head, Text};

use crate::host_store::HostStore;
use crate::public_url::PublicUrl;
use crate::reads::{LastRead, Reads};
use host::HostEntry;
use query::{PageQuery, Show};
use words::{counted, size};

const HOSTS_ON_A_PAGE: usize = 50;
/// For how long after a read the page shows the host as being read. A slow BMC takes
/// seconds for one request.
const JUST_NOW: Duration = Duration::from_secs(60);
/// The interval in seconds at which a page that follows the reads is loaded again.
const FOLLOW: u32 = 10;
const STYLE: &str = include_str!("page/page.css");

/// Where the links to the hosts' files lead.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Links<'a> {
    /// The same listener.
    Here,
    /// Another listener, under this URL.
    At(&'a PublicUrl),
    /// Another listener, whose URL is not known.
    Nowhere,
}

impl Links<'_> {
    /// The URL of a path of the service.
    fn to(self, path: &str) -> Option<String> {
        match self {
            Self::Here => Some(path.to_owned()),
            Self::At(url) => url.join(path).ok(),
            Self::Nowhere => None,
        }
    }
}

/// The data that the page shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageSource<'a> {
    pub(crate) store: &'a HostStore,
    pub(crate) reads: &'a Reads,
    pub(crate) started: SystemTime,
    pub(crate) links: Links<'a>,
}

/// The page for this URL.
pub(crate) fn page(source: &PageSource<'_>, uri: &Uri) -> String {
    let query = PageQuery::of(uri);
    let now = SystemTime::now();
    let mut out = String::with_capacity(64 << 10);
    // Writing to a String cannot fail.
    let _ = write_page(&mut out, source, &query, now);
    out
}

fn write_page(
    out: &mut String,
    source: &PageSource<'_>,
    query: &PageQuery,
    now: SystemTime,
) -> fmt::Result {
    let head = Head {
        title: "Landfall image service",
        more_style: STYLE,
        refresh: query.follow.then_some(FOLLOW),
    };
    writeln!(
        out,
        "{head}<header><h1>Landfall image service</h1><p>Landfall {} &middot; base {} &middot; \
         started {}</p></header>\n<main>",
        env!("CARGO_PKG_VERSION"),
        size(source.store.base().size()),
        httpdate::fmt_http_date(source.started),
    )?;
    if !source.store.is_ready() {
        out.push_str("<p class=\"waiting\">The service does not have all hosts yet.</p>\n");
    }
    let found = Found::of(source, &query.search, now);
    write_choices(out, query, &found)?;
    let names = &found.names[query.show as usize];
    let pages = names.len().div_ceil(HOSTS_ON_A_PAGE).max(1);
    let page = query.page.min(pages - 1);
    let first = page * HOSTS_ON_A_PAGE;
    let shown = &names[first..names.len().min(first + HOSTS_ON_A_PAGE)];
    out.push_str("<section><h2>Hosts</h2>\n");
    match shown.len() {
        0 if source.store.is_empty() => out.push_str("<p>The service has no hosts.</p>"),
        0 => out.push_str("<p>No host fits.</p>"),
        count => writeln!(
            out,
            "<p class=\"dim\">{} to {} of {}</p>",
            first + 1,
            first + count,
            names.len()
        )?,
    }
    for name in shown {
        // The host may have been removed meanwhile.
        if let Some((paths, served)) = source.store.newest(name) {
            let entry = HostEntry {
                name,
                paths: &paths,
                served: &served,
                reads: &source.reads.of_host(name),
            };
            entry.write(out, source.links, now)?;
        }
    }
    write_pages(out, query, page, pages)?;
    write_end(out, query)
}

/// The hosts that the search finds, grouped by when a client last read from them.
struct Found {
    /// The sorted names for each element of [`Show::EACH`].
    names: [Vec<String>; 4],
}

impl Found {
    fn of(source: &PageSource<'_>, search: &str, now: SystemTime) -> Self {
        let reads = source.reads.last_reads();
        let search = search.to_ascii_lowercase();
        let mut names = [const { Vec::new() }; 4];
        for name in source.store.names() {
            let read = reads.get(&name);
            if fits(&name, read, &search) {
                names[state(read, now) as usize].push(name.clone());
                names[Show::All as usize].push(name);
            }
        }
        Self { names }
    }
}

fn fits(name: &str, read: Option<&LastRead>, search: &str) -> bool {
    name.to_ascii_lowercase().contains(search)
        || read.is_some_and(|read| read.client.to_string().contains(search))
}

fn state(read: Option<&LastRead>, now: SystemTime) -> Show {
    let Some(read) = read else {
        return Show::Never;
    };
    match now.duration_since(read.time) {
        Ok(age) if age > JUST_NOW => Show::Earlier,
        _ => Show::Now,
    }
}

/// Writes the search form, and a link for each state of the hosts.
fn write_choices(out: &mut String, query: &PageQuery, found: &Found) -> fmt::Result {
    write!(
        out,
        "<form action=\"/\" role=\"search\"><label for=\"search\">Name of a host, or address of a \
         BMC</label><div><input id=\"search\" name=\"search\" type=\"search\" maxlength=\"253\" \
         value=\"{}\"><button>Search</button></div>",
        Text(&query.search)
    )?;
    if query.show != Show::All {
        let value = query.show.value();
        write!(
            out,
            "<input type=\"hidden\" name=\"show\" value=\"{value}\">"
        )?;
    }
    out.push_str("</form>\n<nav aria-label=\"Hosts by what was read\">");
    for show in Show::EACH {
        let target = PageQuery {
            show,
            page: 0,
            ..query.clone()
        };
        let current = match show == query.show {
            true => " aria-current=\"page\"",
            false => "",
        };
        let (href, label, count) = (
            target.href(),
            show.label(),
            found.names[show as usize].len(),
        );
        write!(
            out,
            "<a class=\"big\" href=\"{href}\"{current}>{label} <b>{count}</b></a> "
        )?;
    }
    out.push_str("</nav>\n");
    Ok(())
}

/// Writes the links to the other pages.
fn write_pages(out: &mut String, query: &PageQuery, page: usize, pages: usize) -> fmt::Result {
    if pages > 1 {
        let link = |page: usize, text: &str| {
            let target = PageQuery {
                page,
                ..query.clone()
            };
            format!("<a class=\"big\" href=\"{}\">{text}</a> ", target.href())
        };
        out.push_str("<nav aria-label=\"Pages\">");
        if page > 0 {
            out.push_str(&link(0, "First"));
            out.push_str(&link(page - 1, "Previous"));
        }
        write!(out, "<span>page {} of {pages}</span> ", page + 1)?;
        if page + 1 < pages {
            out.push_str(&link(page + 1, "Next"));
            out.push_str(&link(pages - 1, "Last"));
        }
        out.push_str("</nav>\n");
    }
    Ok(())
}

fn write_end(out: &mut String, query: &PageQuery) -> fmt::Result {
    let target = PageQuery {
        follow: !query.follow,
        ..query.clone()
    };
    let label = match query.follow {
        true => "Stop updating".to_owned(),
        false => format!("Update every {}", counted(FOLLOW.into(), "second")),
    };
    write!(
        out,
        "<p class=\"dim\">A BMC reads from an ISO only what the host needs to boot, so less than \
         100 % is usual.</p></section>\n<nav aria-label=\"More\">\
         <a class=\"big\" href=\"{}\">{label}</a> <a class=\"big\" href=\"/status.json\">JSON</a> \
         <a class=\"big\" href=\"/metrics\">Metrics</a></nav>\n</main>{END}",
        target.href()
    )
}
