//! Whether a model answers: one request, and what failed by its kind.

use ccagent_tests::daemon::run;
use ccagent_tests::{Daemon, Fake};
use serde_json::{Value, json};

/// A key that must be seen nowhere.
const KEY: &str = "dummy-key-of-the-tests";

fn env(url: &str) -> Value {
    json!({ "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": "" })
}

/// MD-01, I14: a test is one tiny request to the model that is meant, and says how long the answer took.
#[tokio::test]
async fn a_model_that_answers_is_said_to() {
    let (fake, daemon) = (Fake::start(), Daemon::start());
    let conn = daemon.connect().await;
    let tested = conn.ok("provider.test", json!({ "env": env(&fake.url), "model": "claude-x" })).await;
    assert_eq!(
        (&tested["provider"], &tested["model"], &tested["baseUrl"]),
        (&json!("anthropic"), &json!("claude-x"), &json!(format!("{}/", fake.url))),
        "{tested}"
    );
    let (latency, whole) = (tested["latencyMs"].as_u64().unwrap(), tested["durationMs"].as_u64().unwrap());
    assert!(latency <= whole && tested["outputTokens"].as_u64().unwrap() > 0, "{tested}");
    let log = fake.log();
    assert_eq!((log.len(), &log[0]["key"]), (1, &json!(KEY)));
    let body: Value = log[0]["body"].as_str().unwrap().parse().unwrap();
    assert!(body["tools"].is_null() && body["max_tokens"].as_u64().unwrap() < 100, "{body}");
    let offline = conn.ok("provider.test", json!({ "provider": "offline" })).await;
    assert_eq!((&offline["model"], &offline["baseUrl"]), (&json!("offline"), &Value::Null));
    let mut command = daemon.home.ctl(&["doctor", "--model", "claude-x"]);
    command.env("ANTHROPIC_BASE_URL", &fake.url).env("ANTHROPIC_API_KEY", KEY);
    let shown = run(&mut command).out;
    assert!(shown.contains("anthropic/claude-x answers, after"), "{shown}");
    daemon.end().await;
}

/// B29, B30, I14, J136: what fails is told apart: no key, a refused key, an unknown model, a limit, a provider that is busy,
/// that is not there or says nonsense; and never with the key.
#[tokio::test]
async fn what_fails_is_told_apart() {
    let daemon = Daemon::with()
        .config("[provider.local]\nkind = \"openai\"\nbase_url = \"http://me:word-word@127.0.0.1:1/v1\"\n")
        .start();
    let conn = daemon.connect().await;
    let server = Answers::start(vec![
        ("401 Unauthorized", "", format!("bad key {KEY}")),
        ("404 Not Found", "", "no such model".to_owned()),
        ("429 Too Many", "retry-after: 7\r\n", "slow".to_owned()),
        ("529 Busy", "", "busy".to_owned()),
        ("413 Large", "", "large".to_owned()),
        ("200 OK", "content-type: text/html\r\n", "<p>log in".to_owned()),
    ])
    .await;
    // Each address has limits of its own, so that one refusal does not hold the next request back.
    let at = |path: &str| format!("{}/{path}", server.url);
    for (path, code, cause) in [
        ("a", 1901, "key"),
        ("b", 1904, "model"),
        ("c", 1902, "rateLimit"),
        ("d", 1903, "overloaded"),
        ("e", 1905, "tooLong"),
        ("f", 1904, "protocol"),
    ] {
        let failed = conn.err("provider.test", json!({ "env": env(&at(path)), "model": "claude-x" })).await;
        assert_eq!((failed.code, &failed.data["cause"]), (code, &json!(cause)), "{failed:?}");
        assert_eq!(
            (&failed.data["provider"], &failed.data["model"]),
            (&json!("anthropic"), &json!("claude-x"))
        );
        assert!(!format!("{failed:?}").contains(KEY), "{failed:?}");
        assert_eq!(
            failed.data.get("retryAfterMs").and_then(Value::as_u64),
            (code == 1902).then_some(7000),
            "{failed:?}"
        );
    }
    let failed = conn.err("provider.test", json!({ "provider": "local", "model": "m" })).await;
    assert_eq!((failed.code, &failed.data["cause"]), (1904, &json!("network")), "{failed:?}");
    assert!(!format!("{failed:?}").contains("word-word"), "{failed:?}");
    let none = json!({ "provider": "openai", "env": { "OPENAI_API_KEY": "", "OPENAI_BASE_URL": "" } });
    let failed = conn.err("provider.test", none).await;
    assert_eq!((failed.code, &failed.data["cause"]), (1901, &json!("noKey")), "{failed:?}");
    assert!(failed.message.contains("OPENAI_API_KEY"), "{failed:?}");
    let failed = conn.err("provider.test", json!({ "provider": "opnai" })).await;
    assert_eq!(failed.data["near"], json!(["local", "anthropic", "openai", "ollama"]), "{failed:?}");
    let failed = conn.err("provider.test", json!({ "provider": "local" })).await;
    assert_eq!((failed.code, &failed.data["cause"]), (1202, &json!("model")), "{failed:?}");
    daemon.end().await;
}

/// A server that gives these answers, one a connection.
struct Answers {
    url: String,
}

impl Answers {
    async fn start(answers: Vec<(&'static str, &'static str, String)>) -> Self {
        use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            for (status, headers, body) in answers {
                let (stream, _) = listener.accept().await.unwrap();
                let mut stream = BufReader::new(stream);
                let (mut line, mut length) = (String::new(), 0);
                while stream.read_line(&mut line).await.unwrap() > 2 {
                    let head = line.to_ascii_lowercase();
                    if let Some(value) = head.strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    line.clear();
                }
                stream.read_exact(&mut vec![0; length]).await.unwrap();
                let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n{body}");
                stream.write_all(answer.as_bytes()).await.unwrap();
                stream.shutdown().await.unwrap();
            }
        });
        Self { url }
    }
}
