//! Sending to a socket, `uds:<path>[#name]`: one line out, and `delivered` only after its reply.
//!
//! The socket must be ours and no link, and so must the process behind it: a path that another user could have
//! placed gets nothing. Nor does the daemon's own socket: there the daemon would speak as an operator, whoever asked
//! it to.

use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use ccagent_core::{Caller, mailbox, message};
use ccagent_proto::json::Any;
use ccagent_proto::message::{
    Content, Delivered, DeliveryState, ForeignMessage, MessageDeliverParams, MessageSendParams,
    MessageSendResult, Route,
};
use ccagent_proto::method::{MessageDeliver, Method};
use ccagent_proto::task::Receives;
use ccagent_proto::{Error, Kind, MessageId};
use serde_json::{Value, json};
use tokio::fs::{File, OpenOptions};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::context::Context;
use super::peer::Node;

/// The longest wait for the other side's reply.
const REPLY: Duration = Duration::from_secs(10);
/// A longer reply is none.
const MAX_REPLY: u64 = 1 << 20;

/// Sends a message to a socket.
pub(crate) async fn send(
    context: &Context,
    caller: &Caller,
    params: MessageSendParams,
) -> Result<MessageSendResult, Error> {
    if params.idempotency_key.is_some() {
        let why = "idempotencyKey: the receiver of a uds: message can't be asked whether it has it already";
        return Err(Error::new(Kind::InvalidParams, why).with("path", "idempotencyKey"));
    }
    let address = params.to.clone();
    let (path, to) = parse(&address)?;
    let message = composed(context, caller, params.message, to.map(str::to_owned), params.summary).await?;
    let sent = deliver(Path::new(path), context.daemon.info.node, MessageDeliverParams { message });
    let reply = tokio::time::timeout(REPLY, sent).await.unwrap_or_else(|_| {
        Err(Error::new(Kind::MailboxFull, format!("{path} did not reply in {} s", REPLY.as_secs())))
    })?;
    let message_id = reply.get("messageId").and_then(|id| id.as_str()?.parse().ok()).unwrap_or(MessageId(0));
    let delivered =
        Delivered { to: address, message_id, state: DeliveryState::Delivered, receives: Receives::Poll };
    Ok(MessageSendResult { route: Route::Uds, delivered: vec![delivered] })
}

/// The message as it leaves; who sent it is the core's word, and so is who may send abroad.
async fn composed(
    context: &Context,
    caller: &Caller,
    content: Content,
    to: Option<String>,
    summary: Option<String>,
) -> Result<ForeignMessage, Error> {
    let asker = caller.clone();
    let stamped =
        context.handle.ask(move |core, now| Ok((core.sender_abroad(&asker)?, core.limits.message, now)));
    let (sender, limit, now) = stamped.await??;
    let (text, kind) = message::content(content)?;
    if text.len() as u64 > limit {
        let error = Error::new(Kind::MessageTooLarge, format!("a message has at most {limit} bytes"));
        return Err(error.with("limit", limit).with("bytes", text.len()));
    }
    Ok(ForeignMessage {
        // As the other side can answer it.
        from: format!("{}#{sender}", context.daemon.info.socket),
        to,
        data: mailbox::structured(kind, &text),
        text,
        kind: Some(kind),
        summary,
        timestamp: Some(mailbox::iso(now)),
        sent_at: Some(now),
    })
}

fn parse(address: &str) -> Result<(&str, Option<&str>), Error> {
    let rest = address.strip_prefix("uds:").unwrap_or(address);
    let (path, name) = match rest.rsplit_once('#') {
        Some((path, name)) => (path, Some(name).filter(|name| !name.is_empty())),
        None => (rest, None),
    };
    if Path::new(path).is_absolute() {
        Ok((path, name))
    } else {
        Err(refused(path, "it is no absolute path"))
    }
}

/// Hands a message to the socket and gives the result that it was answered with.
async fn deliver(path: &Path, own: Option<Node>, params: MessageDeliverParams) -> Result<Value, Error> {
    let place = checked(path, own).await?;
    // By the place that was checked: what the path names may be another one by now.
    let opened = format!("/proc/self/fd/{}", place.as_raw_fd());
    let socket = UnixStream::connect(opened).await.map_err(|error| failed(path, &error))?;
    let user = rustix::process::geteuid().as_raw();
    if socket.peer_cred().map_err(|error| failed(path, &error))?.uid() != user {
        return Err(refused(&path.display().to_string(), "another user listens there"));
    }
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": MessageDeliver::NAME, "params": params });
    let (reader, mut writer) = socket.into_split();
    writer.write_all(format!("{request}\n").as_bytes()).await.map_err(|error| failed(path, &error))?;
    let mut lines = BufReader::new(reader.take(MAX_REPLY)).lines();
    while let Some(line) = lines.next_line().await.map_err(|error| failed(path, &error))? {
        let Ok(Any(mut reply)) = serde_json::from_str(&line) else { continue };
        // It may say other things before its answer.
        if reply["id"] == 1 {
            return match reply.get("error") {
                Some(error) => Err(refusal(error)),
                None => Ok(reply["result"].take()),
            };
        }
    }
    Err(Error::new(Kind::MailboxFull, format!("{} closed without a reply", path.display())))
}

/// Opens the place of a socket, without connecting, where it may get a message.
async fn checked(path: &Path, own: Option<Node>) -> Result<File, Error> {
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::NOFOLLOW;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    let place = options.open(path).await.map_err(|error| failed(path, &error))?;
    let metadata = place.metadata().await.map_err(|error| failed(path, &error))?;
    let shown = path.display().to_string();
    if !metadata.file_type().is_socket() {
        return Err(refused(&shown, "it is no socket"));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(refused(&shown, "it belongs to another user"));
    }
    if own == Some(Node::of(&metadata)) {
        return Err(refused(&shown, "it is this daemon's own: leave out the path"));
    }
    Ok(place)
}

fn refused(path: &str, why: &str) -> Error {
    Error::new(Kind::UnsafeAddress, format!("{path:?} gets no message: {why}")).with("path", path)
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    let path = path.display().to_string();
    Error::new(Kind::MailboxFull, format!("{path} could not be written to: {error}")).with("path", path)
}

/// The other side's error, as ours.
fn refusal(error: &Value) -> Error {
    let said = error["message"].as_str().unwrap_or("it gave no reason");
    let full = error["code"] == Kind::MailboxFull.code();
    let kind = if full { Kind::MailboxFull } else { Kind::Refused };
    Error::new(kind, format!("the receiver refused: {said}")).with("code", error["code"].clone())
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    fn params() -> MessageDeliverParams {
        MessageDeliverParams { message: ForeignMessage { text: "hi".into(), ..ForeignMessage::default() } }
    }

    /// RT-05: an address is an absolute path with a name behind it.
    #[test]
    fn an_address_is_a_path_and_a_name() {
        assert_eq!(parse("uds:/a/b.sock#n").unwrap(), ("/a/b.sock", Some("n")));
        assert_eq!(parse("uds:/a/b.sock").unwrap(), ("/a/b.sock", None));
        assert_eq!(parse("uds:b.sock").unwrap_err().kind, Kind::UnsafeAddress);
    }

    /// RT-12: a link, or what is no socket, gets nothing; a socket that is not there is a failed write.
    #[tokio::test]
    async fn only_a_socket_of_ours_gets_a_message() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, link, file) = (dir.path().join("s"), dir.path().join("l"), dir.path().join("f"));
        let _listener = UnixListener::bind(&socket).unwrap();
        std::os::unix::fs::symlink(&socket, &link).unwrap();
        std::fs::write(&file, "").unwrap();
        for path in [&link, &file] {
            assert_eq!(deliver(path, None, params()).await.unwrap_err().kind, Kind::UnsafeAddress);
        }
        assert_eq!(
            deliver(&dir.path().join("none"), None, params()).await.unwrap_err().kind,
            Kind::MailboxFull
        );
    }

    /// RT-13: it is delivered only after the reply; a refusal and a silent end are errors.
    #[tokio::test]
    async fn delivered_is_said_after_the_reply() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let replies = [
            r#"{"method":"other"}"#.to_owned() + "\n" + r#"{"id":1,"result":{"messageId":"msg_7"}}"# + "\n",
            r#"{"id":1,"error":{"code":1301,"message":"nobody"}}"#.to_owned() + "\n",
            String::new(),
        ];
        let other = tokio::spawn(async move {
            for reply in replies {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut line = String::new();
                BufReader::new(&mut socket).read_line(&mut line).await.unwrap();
                assert!(line.contains("\"message.deliver\""));
                socket.write_all(reply.as_bytes()).await.unwrap();
            }
        });
        assert_eq!(deliver(&path, None, params()).await.unwrap()["messageId"], "msg_7");
        assert_eq!(deliver(&path, None, params()).await.unwrap_err().kind, Kind::Refused);
        assert_eq!(deliver(&path, None, params()).await.unwrap_err().kind, Kind::MailboxFull);
        other.await.unwrap();
    }
}
