//! Opening the output file and its index without following or touching what somebody planted there.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
    time::Instant,
};

use ccagent_shim::{
    index,
    wire::{StartErrorKind, StartFailure, StartSpec},
};
use rustix::{fs::OFlags, process::getuid};

use super::{Rate, Sink};
use crate::{failure, timeline::Timeline};

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
        let timeline = Timeline::new(open_own(&index::path_of(&spec.output_file), spec.append_output)?)?;
        let len = file.metadata()?.len();
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
    // Non-blocking, or a planted FIFO would hold us here.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(flags.bits().cast_signed());
    let file = if existing { options.create(true) } else { options.create_new(true) }.open(path)?;
    let metadata = file.metadata()?;
    let ours = metadata.is_file() && metadata.uid() == getuid().as_raw() && metadata.nlink() == 1;
    if ours { Ok(file) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}
