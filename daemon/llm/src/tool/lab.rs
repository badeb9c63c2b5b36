//! A context of its own for the tests of a tool, with a host that allows all and knows nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Ask, Beat, Context, Files, Left, Outcome, Tool};
use crate::host::{Host, Incoming, Permission, Progress};

#[derive(Debug)]
struct Nobody;

impl Host for Nobody {
    fn incoming(&self) -> BoxFuture<'_, Vec<Incoming>> {
        ready(Vec::new()).boxed()
    }

    fn acknowledge(&self, _: Vec<String>) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }

    fn more(&self) -> BoxFuture<'_, bool> {
        ready(false).boxed()
    }

    fn progress(&self, _: Progress) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }

    fn show(&self, _: &str) {}

    fn ask(&self, _: Ask) -> BoxFuture<'_, Permission> {
        ready(Permission::Allowed).boxed()
    }
}

/// A context that begins in a directory.
pub(super) fn context(dir: &Path) -> Context {
    Context {
        cwd: Mutex::new(dir.to_owned()),
        env: BTreeMap::new(),
        temp: dir.to_owned(),
        writable: Vec::new(),
        memory: None,
        stop: CancellationToken::new(),
        most: 10_000,
        mask: Arc::default(),
        files: Files::default(),
        shim: PathBuf::new(),
        left: Left::default(),
        beat: Beat::default(),
        host: Arc::new(Nobody),
    }
}

/// Calls a tool as its agent does.
pub(super) async fn call(tool: &dyn Tool, context: &Context, input: Value) -> Outcome {
    tool.call(context, input).await
}
