//! Conversations that get too long, and those that begin with another agent's.

use super::*;

/// A16, H100, M148: a conversation that is too long goes on from its task, a summary, what is open, and its newest
/// turns; where that does not help, it ends.
#[tokio::test]
async fn a_conversation_that_is_too_long_goes_on_from_a_summary() {
    let lab = Lab::new();
    lab.say("m1", "Do the task.");
    let step = "- call: Echo\n  with: {text: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}\n";
    let script = format!("{}- say: end\n  fail: tooLong\n", step.repeat(12));
    let ended = lab.run(&script).await;
    assert_eq!(ended.finish, Finish::Completed);
    let messages = lab.messages().await;
    let first = messages[0].text().unwrap();
    assert!(
        first.starts_with("Do the task.\n\n<earlier-work>") && first.ends_with("</earlier-work>"),
        "{first}"
    );
    assert_eq!(messages[1].role, Role::Assistant);

    let lab = Lab::new();
    lab.say("m1", "Do the task.");
    let ended = lab.run("- say: end\n  fail: tooLong\n  times: 9\n").await;
    assert_eq!(failed(&ended), "contextTooLong");
}

/// H100, M148, RS-12: what an agent was asked for last is its task from then on, word by word, and what it was asked for at
/// first stays beside it, however often the conversation is compacted.
#[tokio::test]
async fn a_conversation_that_is_too_long_keeps_its_newest_prompt() {
    let lab = Lab::new();
    let transcript = lab.found().await.transcript;
    for (run, task) in ["BUILD IT", "TEST IT", "SHIP IT"].into_iter().enumerate() {
        transcript.message(&Message::user(task), vec![format!("{PROMPT}{}", run + 1)]).await.unwrap();
        let ended = lab.run(&"- say: done\n  fail: tooLong\n".repeat(2)).await;
        assert_eq!(ended.finish, Finish::Completed);
        let first = lab.messages().await[0].text().unwrap();
        assert!(first.starts_with(&format!("{task}\n\n<earlier-work>")), "{first}");
        let kept = first.matches("<first-task>\nBUILD IT\n</first-task>").count();
        assert_eq!(kept, usize::from(run > 0), "{first}");
    }
}

/// A conversation that a fork goes on from, and what the fork is told.
async fn forked(lab: &Lab, turns: usize) -> usize {
    let found = lab.found().await;
    let mut history = vec![Message::user("PARENT'S TASK")];
    for _ in 0..turns {
        history.push(Message::assistant(vec![Block::Text { text: "the parent says ".repeat(20) }]));
        history.push(Message::user("go on"));
    }
    let begins = history.len();
    found.transcript.forked("agent_1".into(), history).await.unwrap();
    found.transcript.message(&Message::user("FORK'S TASK"), vec!["prompt:1".into()]).await.unwrap();
    begins
}

/// FK-01, A16: a fork whose conversation gets too long keeps its own task word by word, and what its parent said is a part
/// of the summary.
#[tokio::test]
async fn a_fork_that_is_too_long_keeps_its_own_task() {
    let lab = Lab::new();
    forked(&lab, 3).await;
    let ended = lab.run("- say: end\n- say: no\n- say: no\n- say: no\n  fail: tooLong\n").await;
    assert_eq!((ended.finish, ended.text.as_deref()), (Finish::Completed, Some("end")));
    let messages = lab.messages().await;
    let first = messages[0].text().unwrap();
    assert!(first.starts_with("FORK'S TASK\n\n<earlier-work>"), "{first}");
}

/// FK-01, FK-15, TS-12: what a fork's parent said before is nothing that the fork said.
#[tokio::test]
async fn a_fork_that_says_nothing_has_no_text() {
    let lab = Lab::new();
    forked(&lab, 2).await;
    let ended = lab.run("- say: no\n- say: no\n- say: no\n  fail: authentication\n").await;
    assert!(matches!(ended.finish, Finish::Failed(_)), "{ended:?}");
    assert_eq!((ended.text, ended.messages), (None, 1));
}
