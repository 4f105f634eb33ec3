//! Fetches an image from servers, files and media: a download that resumes at the
//! same byte after a broken connection, on the same server or on another one, and
//! the digest or signature that proves what it fetched.

pub mod checksum_file;
pub mod digest;
pub mod fetch;
pub mod proof;
pub mod resume;
pub mod signature;
pub mod signature_file;
pub mod web_page;
