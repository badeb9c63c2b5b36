//! The providers of agents inside the daemon against the fake API, over real HTTP: what an agent gets, and what it is
//! told when there is nothing to get.

#![cfg(test)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccagent_llm::host::Permission;
use ccagent_llm::message::{Block, Message, Role};
use ccagent_llm::provider::choose::Table;
use ccagent_llm::provider::http::Silence;
use ccagent_llm::provider::pool::Pool;
use ccagent_llm::provider::retry::{self, Patience};
use ccagent_llm::provider::{Answer, Failure, Provider, Request};
use ccagent_llm::tool::Ask;
use ccagent_llm::{Host, Incoming, Progress};
use ccagent_tests::Fake;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

const KEY: &str = "sk-fake-0123456789";
/// A provider of each dialect.
const BOTH: [&str; 2] = ["anthropic/m", "openai/m"];

/// Who answers for a model, at the fake.
fn provider(pool: &Pool, fake: &Fake, model: &str) -> Arc<dyn Provider> {
    let env = BTreeMap::from([
        ("ANTHROPIC_API_KEY".to_owned(), KEY.to_owned()),
        ("ANTHROPIC_BASE_URL".to_owned(), fake.url.clone()),
        ("OPENAI_API_KEY".to_owned(), KEY.to_owned()),
        ("OPENAI_BASE_URL".to_owned(), format!("{}/v1", fake.url)),
    ]);
    let table = Table::default();
    let route = table.route(Some(model), None, &env).unwrap();
    pool.open(&route, &table, &env, Path::new("/")).unwrap()
}

fn request(messages: &[Message]) -> Request<'_> {
    Request { model: "m", system: &[], tools: &[], messages, reminder: None, max_output: 1000, effort: None }
}

async fn ask(provider: &dyn Provider, messages: &[Message]) -> Result<Answer, Failure> {
    provider.answer(request(messages), &mut |_| {}).await
}

/// What comes of a prompt.
async fn says(fake: &Fake, model: &str, prompt: &str) -> Result<Answer, Failure> {
    let silence = Silence { pieces: Duration::from_millis(300), ..Silence::default() };
    ask(&*provider(&Pool::new(silence), fake, model), &[Message::user(prompt)]).await
}

/// TS-11, FK-06: a conversation with calls goes the same way in both dialects, and the bodies are as they have to be.
#[tokio::test]
async fn a_conversation_goes_the_same_way_in_both_dialects() {
    let fake = Fake::start();
    for model in BOTH {
        fake.reset();
        let provider = provider(&Pool::default(), &fake, model);
        let prompt =
            "[[think:hm]] [[odd]] [[say:both]]&[[tool:A {\"x\":[[1]]}]]&[[twice:B {}]] [[raw:C {bro]]";
        let mut messages = vec![Message::user(prompt)];
        let first = ask(&*provider, &messages).await.unwrap().message;
        let calls: Vec<(String, Value)> =
            first.calls().map(|call| (call.name.to_owned(), call.input.clone())).collect();
        assert_eq!(
            calls,
            [("A".to_owned(), json!({"x": [[1]]})), ("B".to_owned(), json!({})), ("B".to_owned(), json!({}))]
        );
        assert_eq!(first.text().unwrap(), "both");
        let results = |message: &Message| Message {
            role: Role::User,
            content: message
                .calls()
                .map(|call| Block::ToolResult {
                    tool_use_id: call.id.into(),
                    content: "ok".into(),
                    is_error: false,
                })
                .collect(),
        };
        messages.extend([first.clone(), results(&first)]);
        let second = ask(&*provider, &messages).await.unwrap().message;
        assert_eq!(second.calls().next().unwrap().input, &json!("{bro"), "{model}");
        messages.extend([second.clone(), results(&second)]);
        assert_eq!(ask(&*provider, &messages).await.unwrap().message.text().unwrap(), "done: ok");
        let log = fake.log();
        assert_eq!(log.len(), 3);
        assert!(log.iter().all(|request| request["key"].as_str().unwrap().ends_with(KEY)), "{log:?}");
        let plain = |request: &Value| {
            request["body"].as_str().unwrap().replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "")
        };
        let (before, after) = (plain(&log[1]), plain(&log[2]));
        assert!(after.starts_with(before.strip_suffix("]}").unwrap()), "{before}\n{after}");
    }
}

/// B29, B30, M150: each fault of a provider is a failure of its own kind, with words for a person.
#[tokio::test]
async fn each_fault_is_told_apart() {
    let fake = Fake::start();
    let faults = [
        (
            "[[error:401]]",
            "authentication",
            "the provider refused the key: HTTP 401: the script says so (http_401) [request req_fake]",
        ),
        ("[[error:429 after=7]]", "rateLimit", "the provider's rate limit is reached: HTTP 429"),
        ("[[error:500]]", "provider", "the provider failed: HTTP 500"),
        ("[[error:529]]", "overloaded", "the provider is overloaded: HTTP 529"),
        ("[[error:413]]", "contextTooLong", "the conversation is too long for the model: HTTP 413"),
        ("[[error:400]]", "provider", "the provider refused the request: HTTP 400"),
        ("[[cut:2]]", "provider", "the connection to the provider broke: "),
        ("[[garbage]]", "provider", "the provider's answer can't be understood: "),
        ("[[fail:overloaded_error]]", "overloaded", "the provider is overloaded: the script says so"),
        ("[[silent:60000]]", "provider", "the provider was silent for "),
    ];
    for model in BOTH {
        for (prompt, kind, text) in faults {
            let failure = says(&fake, model, prompt).await.unwrap_err();
            assert!(failure.to_string().starts_with(text), "{model} {prompt}: {failure}");
            assert_eq!(failure.kind(), kind);
        }
        let after = says(&fake, model, "[[error:529 after=7]]").await.unwrap_err().after();
        assert_eq!(after, Some(Duration::from_secs(7)));
        let empty = says(&fake, model, "[[empty]]").await.unwrap();
        assert_eq!(empty.message.content, []);
    }
    let half = says(&fake, "anthropic/m", "[[half]]").await.unwrap_err();
    assert!(matches!(half, Failure::Cut(_)), "{half}");
    let disorder = says(&fake, "anthropic/m", "[[disorder]]").await.unwrap_err();
    assert!(disorder.to_string().contains("content_block_delta came where it does not belong"), "{disorder}");
    for events in 0..9 {
        let cut = says(&fake, "anthropic/m", &format!("[[cut:{events}]] [[tool:A {{}}]]")).await.unwrap_err();
        assert!(matches!(cut, Failure::Cut(_)), "{events}: {cut}");
    }
}

/// I8: fifty megabytes are taken, and an answer that does not end is not.
#[tokio::test]
async fn a_long_answer_is_taken_up_to_its_bound() {
    let fake = Fake::start();
    for model in BOTH {
        let long = says(&fake, model, "[[long:50000000]]").await.unwrap();
        assert_eq!(long.message.text().unwrap().len(), 50_000_000);
        let endless = says(&fake, model, "[[long:100000000]]").await.unwrap_err();
        assert!(endless.to_string().contains("longer than the 67108864 bytes"), "{endless}");
    }
}

/// B30, M148: of twenty agents that share a key, one is refused and the others wait; all come to their end.
#[tokio::test]
async fn twenty_agents_do_not_run_into_the_same_refusal() {
    let fake = Fake::start();
    let pool = Arc::new(Pool::default());
    let provider = provider(&pool, &fake, "anthropic/m");
    let refused = ask(&*provider, &[Message::user("[[error:429 after=1]]")]).await;
    assert!(matches!(refused, Err(Failure::RateLimit { .. })));
    let agents: Vec<_> = (0..20)
        .map(|_| {
            let provider = provider.clone();
            tokio::spawn(
                async move { ask(&*provider, &[Message::user("[[error:429 after=1*1]] hello")]).await },
            )
        })
        .collect();
    let mut refused = 0;
    for agent in agents {
        refused += usize::from(agent.await.unwrap().is_err());
    }
    assert_eq!(refused, 1, "who comes first after the pause is refused, and the others behind it are not");
    assert_eq!(fake.log().len(), 21);
}

/// I8, I16: hundreds of agents are under way at once, each with its own answer.
#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_agents_are_answered_at_once() {
    let fake = Fake::with(&["--latency", "200"]);
    let pool = Pool::default();
    let agents: Vec<_> = (0..400)
        .map(|agent| {
            let provider = provider(&pool, &fake, BOTH[agent % 2]);
            tokio::spawn(async move {
                let prompt = format!("agent {agent}");
                let answer = ask(&*provider, &[Message::user(prompt.clone())]).await.unwrap();
                assert_eq!(answer.message.text().unwrap(), format!("heard: {prompt}"));
            })
        })
        .collect();
    for agent in agents {
        agent.await.unwrap();
    }
    assert_eq!(fake.log().len(), 400);
}

/// Somebody who looks on while a request is tried again.
#[derive(Debug, Default)]
struct Onlooker {
    told: Mutex<Vec<Progress>>,
}

impl Host for Onlooker {
    fn incoming(&self) -> BoxFuture<'_, Vec<Incoming>> {
        std::future::ready(Vec::new()).boxed()
    }

    fn acknowledge(&self, _: Vec<String>) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }

    fn more(&self) -> BoxFuture<'_, bool> {
        std::future::ready(false).boxed()
    }

    fn progress(&self, progress: Progress) -> BoxFuture<'_, ()> {
        self.told.lock().unwrap().push(progress);
        std::future::ready(()).boxed()
    }

    fn show(&self, _: &str) {}

    fn ask(&self, _: Ask) -> BoxFuture<'_, Permission> {
        std::future::ready(Permission::Allowed).boxed()
    }
}

/// B30: what passes is waited out, and told; what does not is said at once.
#[tokio::test]
async fn what_passes_is_tried_again() {
    let fake = Fake::start();
    let patience = Patience { first: Duration::from_millis(1), ..Patience::default() };
    for model in BOTH {
        fake.reset();
        let provider = provider(&Pool::default(), &fake, model);
        let host = Onlooker::default();
        let messages =
            [Message::user("[[error:529 after=0.01*2]] [[error:500*4]] [[garbage*5]] [[say:at last]]")];
        let answer =
            retry::answer(&*provider, request(&messages), &mut |_| {}, patience, &host).await.unwrap();
        assert_eq!(answer.message.text().unwrap(), "at last");
        let told = host.told.into_inner().unwrap();
        let why: Vec<&str> =
            told.iter()
                .filter_map(|progress| {
                    if let Progress::Backoff { why, .. } = progress { Some(why.as_str()) } else { None }
                })
                .collect();
        assert_eq!(why.len() + 1, fake.log().len(), "{why:?}");
        for words in ["overloaded", "HTTP 500", "can't be understood"] {
            assert!(why.iter().any(|why| why.contains(words)), "{words}: {why:?}");
        }
        let refused = [Message::user("[[error:401*1]] [[say:never]]")];
        let failure =
            retry::answer(&*provider, request(&refused), &mut |_| {}, patience, &Onlooker::default()).await;
        assert_eq!(failure.unwrap_err().kind(), "authentication");
    }
}
