//! Writes an archive, entry after entry.

use std::io::{self, Read, Write};

use super::{HEADER_LEN, MAGIC, MAX_NAME_LEN, S_IFCHR, S_IFDIR, S_IFREG, TRAILER};
use crate::file_tree::{Content, Entry, FileTree, Node};
use crate::path_error::PathError;

/// The header fields other than name and size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Header {
    /// File type and permissions, as in `stat`.
    pub mode: u32,
    /// The time in seconds since 1970.
    pub mtime: u32,
    /// Major and minor number of a device node.
    pub rdev: (u32, u32),
}

/// Why an archive cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("cannot write the archive")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Source(#[from] PathError),
    /// The name is empty, longer than the kernel accepts, contains NUL, or is the name
    /// that ends an archive.
    #[error(
        "archive member `{0}`: expected a name of 1 to 4095 bytes without NUL that is not the trailer's"
    )]
    BadName(String),
    /// The content is larger than the format can store, in 32 bits.
    #[error("archive member `{name}` is {size} bytes, expected less than 4 GiB")]
    TooLarge {
        name: String,
        /// The size of the content in bytes.
        size: u64,
    },
    #[error(
        "archive member `{name}`: expected {expected} bytes, found {found}: the file changes while it is read"
    )]
    SizeChanged {
        name: String,
        /// The size in bytes that the header announces.
        expected: u64,
        /// The size in bytes that was found; at most one more than `expected`.
        found: u64,
    },
}

/// A reader that remembers whether its last read failed. The error of `io::copy` does not
/// show whether the reader or the writer failed.
struct Input<R> {
    content: R,
    is_broken: bool,
}

impl<R: Read> Read for Input<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let result = self.content.read(buffer);
        self.is_broken = result.is_err();
        result
    }
}

/// Writes an archive. The same calls give the same bytes: the owner is always root, inode
/// numbers count up, and link counts and device numbers are constant.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    written: u64,
    next_inode: u32,
}

impl<W: Write> Writer<W> {
    pub fn new(out: W) -> Self {
        Self {
            out,
            written: 0,
            next_inode: 1,
        }
    }

    /// Adds one member with the `size` bytes of `content`. After an error the
    /// archive is unusable.
    pub fn member(
        &mut self,
        name: &str,
        header: Header,
        size: u64,
        content: impl Read,
    ) -> Result<(), WriteError> {
        if name.is_empty() || name.len() >= MAX_NAME_LEN || name.contains('\0') || name == TRAILER {
            return Err(WriteError::BadName(name.to_owned()));
        }
        let Ok(size_field) = u32::try_from(size) else {
            return Err(WriteError::TooLarge {
                name: name.to_owned(),
                size,
            });
        };
        self.header(name, header, size_field)?;
        // Read one byte more than announced, to notice a file that has grown.
        let found = io::copy(&mut content.take(size + 1), &mut self.out)?;
        if found != size {
            return Err(WriteError::SizeChanged {
                name: name.to_owned(),
                expected: size,
                found,
            });
        }
        self.written += found;
        self.pad()
    }

    /// Adds everything in `tree` in archive order and gives every entry the time
    /// `mtime`. After an error the archive is unusable.
    pub fn tree(&mut self, tree: &FileTree, mtime: u32) -> Result<(), WriteError> {
        self.members(tree.in_archive_order(), mtime)
    }

    /// Adds these members of a tree, as [`Writer::tree`] does.
    pub(crate) fn members<'a>(
        &mut self,
        members: impl IntoIterator<Item = (&'a str, &'a Entry)>,
        mtime: u32,
    ) -> Result<(), WriteError> {
        for (path, entry) in members {
            let header = |kind: u32| Header {
                mode: kind | entry.permissions,
                mtime,
                rdev: (0, 0),
            };
            match &entry.node {
                Node::Directory => self.member(path, header(S_IFDIR), 0, io::empty())?,
                Node::CharDevice { major, minor } => {
                    let header = Header {
                        rdev: (*major, *minor),
                        ..header(S_IFCHR)
                    };
                    self.member(path, header, 0, io::empty())?;
                }
                Node::File(Content::Bytes(bytes)) => {
                    self.member(path, header(S_IFREG), bytes.len() as u64, bytes.as_slice())?;
                }
                Node::File(Content::OnDisk { path: source, size }) => {
                    let file = std::fs::File::open(source)
                        .map_err(PathError::new("cannot open", source))?;
                    let mut file = Input {
                        content: file,
                        is_broken: false,
                    };
                    let written = self.member(path, header(S_IFREG), *size, &mut file);
                    written.map_err(|error| match error {
                        WriteError::Io(error) if file.is_broken => {
                            PathError::new("cannot read", source)(error).into()
                        }
                        other => other,
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Writes the trailer. Returns the output and the size of the archive in bytes.
    pub fn finish(mut self) -> Result<(W, u64), WriteError> {
        self.next_inode = 0;
        self.header(TRAILER, Header::default(), 0)?;
        Ok((self.out, self.written))
    }

    fn header(&mut self, name: &str, header: Header, size: u32) -> Result<(), WriteError> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "names are at most 4096 bytes"
        )]
        let name_size = name.len() as u32 + 1;
        // The order of the fields: inode, mode, uid, gid, links, mtime, size, device
        // (2), rdev (2), name size, checksum. The link count is 1 even for directories:
        // the kernel treats a file with more than one link as a hard link.
        let (major, minor) = header.rdev;
        let fields = [
            self.next_inode,
            header.mode,
            0,
            0,
            1,
            header.mtime,
            size,
            0,
            0,
            major,
            minor,
            name_size,
            0,
        ];
        self.next_inode = self.next_inode.wrapping_add(1);
        let mut text = Vec::with_capacity(HEADER_LEN + name.len() + 4);
        text.extend_from_slice(MAGIC);
        for field in fields {
            write!(text, "{field:08X}")?;
        }
        text.extend_from_slice(name.as_bytes());
        text.push(0);
        self.out.write_all(&text)?;
        self.written += text.len() as u64;
        self.pad()
    }

    fn pad(&mut self) -> Result<(), WriteError> {
        let padding = self.written.next_multiple_of(4) - self.written;
        for _ in 0..padding {
            self.out.write_all(&[0])?;
        }
        self.written += padding;
        Ok(())
    }
}
