use super::super::{Hit, Query, SearchError};
use super::*;
use crate::provider::http::Silence;
use crate::provider::stub::{KEY, Say, Stub, refusal};

/// What a search of an endpoint with this answer comes to, and what the endpoint heard.
async fn search(answer: Say, key_env: Option<&str>) -> (Result<Found, SearchError>, Vec<String>) {
    let stub = Stub::start(vec![vec![answer]]).await;
    let setting = Setting { url: stub.endpoint().base_url, key_env: key_env.map(str::to_owned) };
    let env = BTreeMap::from([("SEARCH_KEY".to_owned(), KEY.to_owned())]);
    let http = Http::new(&BTreeMap::new(), Silence::default()).unwrap();
    let query = Query { words: "the price".into(), blocked: vec!["b.com".into()], ..Query::default() };
    let found = setting.search(&http, &env, &query).await;
    (found, stub.heard())
}

fn answer(body: &str) -> Say {
    refusal(200, "content-type: application/json\r\n", body)
}

/// TP-05, I14: an endpoint of the config gets the query with its key, and its results are taken.
#[tokio::test]
async fn an_endpoint_searches() {
    let body = r#"{"results": [{"title": "A", "url": "https://a.com/", "text": "five", "score": 1},
        {"url": "https://b.com/"}], "more": true}"#;
    let (found, heard) = search(answer(body), Some("SEARCH_KEY")).await;
    let hit = Hit { title: "A".into(), url: "https://a.com/".into(), text: "five".into() };
    assert_eq!(found.unwrap().hits, [hit]);
    assert!(heard[0].contains(&format!("authorization: Bearer {KEY}\r\n")), "{}", heard[0]);
    assert!(
        heard[0].ends_with(r#"{"query":"the price","limit":20,"blockedDomains":["b.com"]}"#),
        "{}",
        heard[0]
    );
}

/// I8, I14, K144: what goes wrong is named with the endpoint's address, and never with the key.
#[tokio::test]
async fn what_goes_wrong_at_an_endpoint_is_named() {
    let refused = refusal(401, "", &format!("bad key {KEY}"));
    let long = answer(&"x".repeat(ANSWER_MOST + 1));
    let moved = refusal(302, "location: http://example.com/\r\n", "");
    for (say, expected) in [
        (refused, "answers 401 Unauthorized: bad key [masked]"),
        (answer("[]"), "\"results\""),
        (answer(r#"{"results": [{"title": "x"}]}"#), "missing field `url`"),
        (long, "more than 2097152 bytes"),
        (moved, "answers 302 Found"),
    ] {
        let error = search(say, Some("SEARCH_KEY")).await.0.unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("127.0.0.1") && !error.contains(KEY), "{error}");
    }
    let setting = Setting { url: "http://127.0.0.1:1/".into(), key_env: Some("CCAGENT_NO_SUCH_KEY".into()) };
    let http = Http::new(&BTreeMap::new(), Silence::default()).unwrap();
    let search = async |setting: &Setting| {
        setting.search(&http, &BTreeMap::new(), &Query::default()).await.unwrap_err()
    };
    assert_eq!(search(&setting).await, SearchError::KeyMissing { variable: "CCAGENT_NO_SUCH_KEY".into() });
    let unreachable = search(&Setting { key_env: None, ..setting }).await.to_string();
    assert!(unreachable.contains("can't be reached"), "{unreachable}");
}

/// J136: an address is one of http, and has no password in it.
#[test]
fn an_address_is_one_of_http() {
    assert!(is_address("https://search.example.com/v1") && is_address("http://127.0.0.1:8080/"));
    for bad in ["", "search.example.com", "ftp://a.com/", "https://me:word@a.com/"] {
        assert!(!is_address(bad), "{bad}");
    }
}
