//! The body of an HTTP request on its way in: it takes its share of the budget of all connections as it grows.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use jsonrpsee::core::BoxError;

use super::budget::Share;

/// There was no room for the body.
#[derive(Debug, thiserror::Error)]
#[error("there is no room for the body")]
pub(super) struct NoRoom;

/// A body that takes its share.
#[derive(Debug)]
pub(super) struct Counted<B> {
    body: B,
    share: Share,
    bytes: usize,
}

impl<B> Counted<B> {
    pub(super) fn new(body: B, share: Share) -> Self {
        Self { body, share, bytes: 0 }
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Body for Counted<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            self.bytes += frame.data_ref().map_or(0, Bytes::len);
            let bytes = self.bytes;
            if !self.share.hold(bytes) {
                return Poll::Ready(Some(Err(NoRoom.into())));
            }
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
