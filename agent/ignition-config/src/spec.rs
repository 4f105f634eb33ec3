//! The members of an Ignition config that this crate reads (Ignition's configuration
//! specification 3.0 to 3.6).

use crate::member::{Member, Members, WrongType};

pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) contents: Option<Resource>,
    pub(crate) append: Vec<Resource>,
}

impl File {
    pub(crate) fn read(entry: Member) -> Result<Self, WrongType> {
        let mut members = entry.object()?;
        let append = members.list("append")?.into_iter().map(Resource::read);
        Ok(Self {
            append: append.collect::<Result<_, _>>()?,
            contents: Resource::of(members.object("contents")?)?,
            path: members.required_text("path")?,
        })
    }
}

/// A reference to a content: its URL, compression and hash.
#[derive(Clone, Default)]
pub(crate) struct Resource {
    pub(crate) source: Option<String>,
    pub(crate) compression: Option<String>,
    /// `verification.hash`
    pub(crate) hash: Option<String>,
}

impl Resource {
    pub(crate) fn read(entry: Member) -> Result<Self, WrongType> {
        let members = entry.object()?;
        Ok(Self::of(Some(members))?.unwrap_or_default())
    }

    pub(crate) fn of(members: Option<Members>) -> Result<Option<Self>, WrongType> {
        let Some(mut members) = members else {
            return Ok(None);
        };
        let mut verification = members.object("verification")?.unwrap_or_default();
        Ok(Some(Self {
            source: members.text("source")?,
            compression: members.text("compression")?,
            hash: verification.text("hash")?,
        }))
    }

    /// Takes the members that this resource leaves out from the earlier config:
    /// Ignition merges structures member by member (config/merge/merge.go). An empty
    /// `verification` without a content counts as left out, because programs in Go
    /// write it.
    pub(crate) fn over(self, earlier: Option<Self>) -> Self {
        let earlier = earlier.unwrap_or_default();
        Self {
            source: self.source.or(earlier.source),
            compression: self.compression.or(earlier.compression),
            hash: self.hash.or(earlier.hash),
        }
    }
}

#[derive(Clone, Default)]
pub(crate) struct Unit {
    pub(crate) name: String,
    pub(crate) mask: Option<bool>,
    pub(crate) contents: Option<String>,
    pub(crate) dropins: Vec<Dropin>,
}

#[derive(Clone)]
pub(crate) struct Dropin {
    pub(crate) name: String,
    pub(crate) contents: Option<String>,
}

impl Unit {
    pub(crate) fn read(entry: Member) -> Result<Self, WrongType> {
        let mut members = entry.object()?;
        let dropins = members.list("dropins")?.into_iter().map(Dropin::read);
        Ok(Self {
            dropins: dropins.collect::<Result<_, _>>()?,
            name: members.required_text("name")?,
            mask: members.flag("mask")?,
            contents: members.text("contents")?,
        })
    }
}

impl Dropin {
    fn read(entry: Member) -> Result<Self, WrongType> {
        let mut members = entry.object()?;
        Ok(Self {
            name: members.required_text("name")?,
            contents: members.text("contents")?,
        })
    }
}
