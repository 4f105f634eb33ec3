//! Fetches an image from servers, files and media. A download resumes at the same byte
//! after a broken connection, on the same server or on another one. The digest or
//! signature of the image proves that the download is the intended image.

pub mod checksum_file;
pub mod digest;
pub mod fetch;
pub mod proof;
pub mod resume;
pub mod signature;
pub mod signature_file;
pub mod web_page;
