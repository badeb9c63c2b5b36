//! Opening the output file and its index without following or touching what somebody planted there.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
    time::Instant,
};

use ccagent_shim::{
    index, owned,
    timeline::Timeline,
    wire::{StartErrorKind, StartFailure, StartSpec},
};
use rustix::fs::OFlags;

use super::{Rate, Sink};
use crate::failure;

/// More than all the marks that say what is missing.
const MARKS: u64 = 1024;

impl Sink {
    /// Makes the output file, or goes on behind an earlier attempt's output.
    pub(crate) fn open(spec: &StartSpec) -> Result<Self, StartFailure> {
        Self::try_open(spec).map_err(|error| failure(StartErrorKind::OutputRefused, "output file", &error))
    }

    fn try_open(spec: &StartSpec) -> io::Result<Self> {
        if !spec.output_file.is_absolute() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let file = open_own(&spec.output_file, spec.append_output)?;
        // What an agent added to it by itself is beyond all that there can be.
        let len = file.metadata()?.len().min(spec.max_output_bytes.saturating_add(MARKS));
        let index = open_own(&index::path_of(&spec.output_file), spec.append_output)?;
        let timeline = Timeline::new(index, len)?;
        let rate = Rate { limit: spec.output_rate, since: Instant::now(), used: 0 };
        Ok(Self {
            file,
            nowhere: OpenOptions::new().write(true).open("/dev/null")?,
            timeline,
            len,
            max: spec.max_output_bytes,
            reserve: super::Reserve::default(),
            rate,
            // The marker takes a file beyond its limit, so an earlier attempt has written it.
            full_marked: len > spec.max_output_bytes,
            rate_marked: false,
            truncated: len > spec.max_output_bytes,
            error: None,
        })
    }
}

/// Never with `O_APPEND`, which splice refuses: we are the only writer and keep the offset ourselves.
fn open_own(path: &Path, existing: bool) -> io::Result<File> {
    let fresh = if existing { OFlags::CREATE } else { OFlags::CREATE | OFlags::EXCL };
    let file = owned::open(path, OFlags::RDWR | fresh)?;
    // By another name it may be somebody's document.
    if file.metadata()?.nlink() == 1 { Ok(file) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}
