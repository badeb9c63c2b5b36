//! Mailboxes: ordered, durable, read by their owner, and nothing lost however many write.

use ccagent_proto::mailbox::{MailboxSubscribe, MailboxSubscribeParams};
use ccagent_tests::{Conn, Daemon, PATIENCE};
use serde_json::{Value, json};

async fn with_reader(daemon: &Daemon) -> Conn {
    let conn = daemon.connect().await;
    conn.spawn(&["/bin/sleep", "600"], json!({ "name": "reader" })).await;
    conn
}

fn texts(answer: &Value) -> Vec<&str> {
    answer["messages"].as_array().unwrap().iter().map(|message| message["text"].as_str().unwrap()).collect()
}

/// MB-01, MB-12, MB-16: a message is pending, then processing, then processed and read; reading changes nothing.
#[tokio::test]
async fn a_message_goes_from_pending_to_processed() {
    let daemon = Daemon::start();
    let conn = with_reader(&daemon).await;
    conn.send("reader", "one").await;
    let read =
        async |unread: bool| conn.ok("mailbox.read", json!({ "agent": "reader", "unread": unread })).await;
    for _ in 0..2 {
        let message = read(true).await["messages"][0].take();
        assert_eq!((&message["state"], &message["read"]), (&json!("pending"), &json!(false)));
    }
    let polled = conn.ok("mailbox.poll", json!({ "agent": "reader" })).await;
    assert_eq!(read(false).await["messages"][0]["state"], "processing");
    let id = polled["messages"][0]["id"].clone();
    let ack = json!({ "agent": "reader", "ids": [id] });
    assert_eq!(conn.ok("mailbox.ack", ack.clone()).await, json!({ "acked": 1 }));
    assert_eq!(conn.ok("mailbox.ack", ack).await, json!({ "acked": 0 }));
    assert_eq!(texts(&read(true).await), Vec::<&str>::new());
    let all = read(false).await;
    let processed = all["messages"].as_array().unwrap().iter().find(|message| message["id"] == id);
    assert!(processed.is_none_or(|message| message["state"] == "processed" && message["read"] == true));
    daemon.end().await;
}

/// MB-12, K144: pages of a mailbox together are all of it, in order, whichever messages were acknowledged first.
#[tokio::test]
async fn pages_of_read_and_unread_mail_are_the_whole_mailbox() {
    let daemon = Daemon::start();
    let conn = with_reader(&daemon).await;
    for number in 0..7 {
        conn.send("reader", &number.to_string()).await;
    }
    let polled = conn.ok("mailbox.poll", json!({ "agent": "reader" })).await;
    for place in [4, 1, 3] {
        let ids = [polled["messages"][place]["id"].clone()];
        conn.ok("mailbox.ack", json!({ "agent": "reader", "ids": ids })).await;
    }
    let (mut seen, mut cursor, mut pages) = (Vec::new(), None, 0);
    loop {
        let mut params = json!({ "agent": "reader", "limit": 2 });
        if let Some(cursor) = cursor {
            params["cursor"] = cursor;
        }
        let page = conn.ok("mailbox.read", params).await;
        seen.extend(texts(&page).into_iter().map(str::to_owned));
        pages += 1;
        match page.get("nextCursor") {
            Some(next) => cursor = Some(next.clone()),
            None => break,
        }
    }
    assert_eq!((seen, pages), (["0", "1", "2", "3", "4", "5", "6"].map(str::to_owned).to_vec(), 4));
    daemon.end().await;
}

/// MB-06, I1: fifty writers at once lose nothing, and each writer's own order stays.
#[tokio::test]
async fn fifty_writers_at_once_lose_nothing() {
    let daemon = Daemon::start();
    let conn = with_reader(&daemon).await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..50 {
        let own = daemon.connect().await;
        writers.spawn(async move {
            for number in 0..4 {
                own.send("reader", &format!("{writer} {number}")).await;
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    let mail = conn.ok("mailbox.read", json!({ "agent": "reader", "limit": 1000 })).await;
    let texts = texts(&mail);
    assert_eq!(texts.len(), 200);
    for writer in 0..50 {
        let own: Vec<&str> =
            texts.iter().filter_map(|text| text.strip_prefix(&format!("{writer} "))).collect();
        assert_eq!(own, ["0", "1", "2", "3"]);
    }
    let seqs: Vec<u64> =
        mail["messages"].as_array().unwrap().iter().map(|one| one["seq"].as_u64().unwrap()).collect();
    assert!(seqs.is_sorted(), "{seqs:?}");
    daemon.end().await;
}

/// A8, A9, MB-16: what a reader took and did not acknowledge before it died is handed out again, in order.
#[tokio::test]
async fn what_a_dead_reader_took_is_handed_out_again() {
    let daemon = Daemon::start();
    let conn = with_reader(&daemon).await;
    for text in ["one", "two", "three"] {
        conn.send("reader", text).await;
    }
    let mut raw = daemon.raw();
    let taken = raw.call("mailbox.poll", &json!({ "agent": "reader", "max": 2 }));
    assert_eq!(texts(&taken["result"]), ["one", "two"]);
    let rest = conn.ok("mailbox.poll", json!({ "agent": "reader" })).await;
    assert_eq!(texts(&rest), ["three"]);
    let waiting = conn.ok("mailbox.poll", json!({ "agent": "reader", "waitMs": 50_000 }));
    drop(raw);
    let mut again = texts(&waiting.await).iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    while again.len() < 2 {
        let more = conn.ok("mailbox.poll", json!({ "agent": "reader", "waitMs": 50_000 })).await;
        again.extend(texts(&more).iter().map(|text| (*text).to_owned()));
    }
    assert_eq!(again, ["one", "two"]);
    daemon.end().await;
}

/// I1, MB-16: over `kill -9` nothing that was acknowledged comes again, and nothing that was not is lost.
#[tokio::test]
async fn acknowledged_mail_never_comes_again_after_a_crash() {
    let mut daemon = Daemon::start();
    let conn = with_reader(&daemon).await;
    for text in ["one", "two", "three"] {
        conn.send("reader", text).await;
    }
    let taken = conn.ok("mailbox.poll", json!({ "agent": "reader", "max": 2 })).await;
    let first = taken["messages"][0]["id"].clone();
    conn.ok("mailbox.ack", json!({ "agent": "reader", "ids": [first] })).await;
    daemon.crash();
    daemon.restart();
    let conn = daemon.connect().await;
    let again = conn.ok("mailbox.poll", json!({ "agent": "reader", "waitMs": 50_000 })).await;
    assert_eq!(texts(&again), ["two", "three"]);
    daemon.end().await;
}

/// MB-13, OF-09: a poll waits for mail on the daemon's side; its time running out is an empty list.
#[tokio::test]
async fn a_poll_waits_and_its_end_is_an_empty_list() {
    let daemon = Daemon::start();
    let conn = with_reader(&daemon).await;
    let empty = conn.ok("mailbox.poll", json!({ "agent": "reader", "waitMs": 50 })).await;
    assert_eq!(empty["messages"], json!([]));
    let (got, _) = tokio::join!(
        conn.ok("mailbox.poll", json!({ "agent": "reader", "waitMs": 50_000 })),
        conn.send("reader", "now")
    );
    assert_eq!(texts(&got), ["now"]);
    daemon.end().await;
}

/// MB-13, A5: a subscription pushes messages as they come.
#[tokio::test]
async fn a_subscription_pushes_mail() {
    let daemon = Daemon::start();
    let conn = with_reader(&daemon).await;
    conn.send("reader", "before").await;
    let params = MailboxSubscribeParams { agent: Some("reader".to_owned()), team_name: None };
    let mut items = conn.client.subscribe::<MailboxSubscribe>(params).await.unwrap();
    for text in ["before", "after"] {
        let message = tokio::time::timeout(PATIENCE, items.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(message.text, text);
        conn.ok("mailbox.ack", json!({ "agent": "reader", "ids": [message.id.to_string()] })).await;
        if text == "before" {
            conn.send("reader", "after").await;
        }
    }
    daemon.end().await;
}

/// MB-03: a summary that was given is kept as it is.
#[tokio::test]
async fn a_given_summary_is_kept() {
    let daemon = Daemon::start();
    let conn = with_reader(&daemon).await;
    let params = json!({ "to": "reader", "message": "long text", "summary": "what it is about in short" });
    conn.ok("message.send", params).await;
    let mail = conn.ok("mailbox.read", json!({ "agent": "reader" })).await;
    assert_eq!(mail["messages"][0]["summary"], "what it is about in short");
    daemon.end().await;
}

/// I8: a mailbox is listed in pages.
#[tokio::test]
async fn a_mailbox_is_listed_in_pages() {
    let daemon = Daemon::start();
    let conn = with_reader(&daemon).await;
    for number in 0..5 {
        conn.send("reader", &number.to_string()).await;
    }
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let mut params = json!({ "agent": "reader", "limit": 2 });
        if let Some(cursor) = &cursor {
            params["cursor"] = json!(cursor);
        }
        let page = conn.ok("mailbox.read", params).await;
        assert!(page["messages"].as_array().unwrap().len() <= 2);
        all.extend(texts(&page).iter().map(|text| (*text).to_owned()));
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(all, ["0", "1", "2", "3", "4"]);
    daemon.end().await;
}
