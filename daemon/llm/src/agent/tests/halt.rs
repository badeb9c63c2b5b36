//! What a run that was ended in the middle of its calls leaves in its conversation.

use super::*;

/// A tool that answers at once, or ends the run at once and never answers.
#[derive(Debug)]
struct Tangle(Halt);

impl Tool for Tangle {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<EchoInput>("Tangle", "Answers, or not.")
    }

    fn access(&self, _: &Value) -> Access {
        Access::Reads
    }

    fn summary(&self, _: &Value) -> String {
        String::new()
    }

    fn call<'a>(&'a self, _: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        let input = read::<EchoInput>(input).unwrap();
        if input.fail {
            self.0.force.cancel();
            return std::future::pending().boxed();
        }
        let heard = vec![format!("end:{}", input.text)];
        let changed = vec![PathBuf::from(&input.text)];
        ready(Outcome { changed, heard, ..Outcome::ok(input.text) }).boxed()
    }
}

/// What the results at a conversation's end say: each text, and whether it is an error.
async fn results(lab: &Lab) -> Vec<(String, bool)> {
    let last = lab.messages().await.pop().unwrap();
    let result = |block| match block {
        Block::ToolResult { content, is_error, .. } => (content, is_error),
        other => panic!("{other:?}"),
    };
    last.content.into_iter().map(result).collect()
}

/// I1, RS-12, AB-03: a run that is ended at once keeps what its calls came to that were done, wherever in the answer they
/// stand, and acknowledges what these told of; only of the others nothing is known.
#[tokio::test]
async fn a_forced_halt_keeps_what_was_done_by_then() {
    for hangs in 0..3 {
        let lab = Lab::new();
        lab.say("m1", "Do it.");
        let call = |at: usize| format!("{{call: Tangle, with: {{text: t{at}, fail: {}}}}}", at == hangs);
        let calls: Vec<String> = (0..3).map(call).collect();
        let mut agent = lab.agent(&format!("- calls: [{}]\n", calls.join(", "))).await;
        agent.toolbox = Toolbox::new(vec![Arc::new(Tangle(lab.halt.clone()))]);
        let ended = agent.run().await;
        assert_eq!((ended.finish, ended.changed.len()), (Finish::Halted, 2));
        for (at, (text, is_error)) in results(&lab).await.into_iter().enumerate() {
            let interrupted = text.starts_with("The run was interrupted while this call was under way");
            assert_eq!((interrupted, is_error), (at == hangs, at == hangs), "{text}");
            assert_eq!(lock(&lab.host.acknowledged).contains(&format!("end:t{at}")), at != hangs);
        }
        assert!(unanswered(&lab.messages().await).is_empty(), "an earlier run's calls are answered once");
    }
}

/// RS-12, M148: a run that ends because of what its calls came to keeps that too: who goes on with it does not take them
/// for interrupted.
#[tokio::test]
async fn a_run_that_ends_over_its_calls_keeps_their_results() {
    let mut lab = Lab::new();
    lab.say("m1", "Do it.");
    lab.limits.repeats = Some(2);
    let step = "- calls: [{call: Echo, with: {text: wrong, fail: true}}, {call: Echo, with: {text: wrong, fail: true}}]\n";
    assert_eq!(failed(&lab.run(step).await), "repeatedFailure");
    assert_eq!(results(&lab).await, [("wrong".to_owned(), true), ("wrong".to_owned(), true)]);
}

/// I1, RS-12: what all calls came to is kept, too, where the run is ended at once before it is said.
#[tokio::test]
async fn a_forced_halt_behind_the_calls_keeps_them() {
    let mut lab = Lab::new();
    lab.host = Arc::new(Notes { ends: Some(lab.halt.force.clone()), ..Notes::default() });
    lab.say("m1", "Do it.");
    let ended = lab.run("- call: Echo\n  with: {text: a}\n").await;
    assert_eq!((ended.finish, ended.changed.len()), (Finish::Halted, 1));
    assert_eq!(results(&lab).await, [("a".to_owned(), false)]);
}

/// I2, RS-12: where a run is ended at once while results are being written, they are not written once more: a provider
/// takes one result of a call.
#[test]
fn what_is_being_written_is_not_said_twice() {
    // The one thread that writes is held until the run is over.
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    for heard in [Vec::new(), vec!["end:a".to_owned()]] {
        runtime.block_on(async {
            let lab = Lab::new();
            let mut agent = lab.agent("- say: never\n").await;
            let call = Block::ToolUse { id: "c1".into(), name: "Echo".into(), input: Value::Null };
            agent.messages = vec![Message::user("Do it."), Message::assistant(vec![call])];
            let results = Results { content: unanswered(&agent.messages), heard };
            let mut counts = Counts { results: Some(results.clone()), ..Counts::default() };
            let (go, wait) = std::sync::mpsc::channel::<()>();
            let held = tokio::task::spawn_blocking(move || wait.recv());
            assert!(agent.take_incoming(results).now_or_never().is_none(), "it is being written");
            drop(go);
            held.await.unwrap().unwrap_err();
            agent.close(&mut counts).await.unwrap();
            assert_eq!(lab.messages().await, agent.messages[2..]);
        });
    }
}
