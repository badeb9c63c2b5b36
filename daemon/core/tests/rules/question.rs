//! Questions: which answers they take.

use std::collections::BTreeMap;

use ccagent_core::ask::{Asked, What};
use ccagent_proto::ask::{Ask, AskBehavior, AskRespondParams, AskState, Choice, Question};
use ccagent_proto::method::{AskRespond, TaskStop};
use ccagent_proto::task::TaskStopParams;
use ccagent_proto::{Kind, TaskId};
use serde_json::json;

use crate::ask::{answer, running, try_ask};
use crate::desk::{Desk, agent, member, person};
use crate::message::team;

fn question(text: &str, labels: &[&str], multi_select: bool) -> Question {
    let choice = |label: &&str| Choice { label: (*label).into(), description: String::new() };
    Question {
        question: text.into(),
        header: "Which".into(),
        options: labels.iter().map(choice).collect(),
        multi_select,
    }
}

fn ask(desk: &mut Desk, task: TaskId) -> Ask {
    let questions = vec![
        question("Which one?", &["A", "B", "A, then B"], false),
        question("Which of them?", &["C", "D"], true),
    ];
    let what = What::Question { questions };
    try_ask(desk, task, 1, Asked { what, call: None, summary: "Which one?".into(), cwd: "/".into() }).unwrap()
}

fn answers(ask: &Ask, answers: &[(&str, &str)]) -> AskRespondParams {
    let answers = answers.iter().map(|(question, answer)| ((*question).into(), (*answer).into())).collect();
    AskRespondParams { answers: Some(answers), ..answer(ask.id, AskBehavior::Allow) }
}

/// E76, L1: an answer is a label, several of them where the question takes that, or words of one's own; what else
/// is given is refused with what is wrong, and the question waits on.
#[test]
fn an_answer_fits_its_question() {
    let mut desk = Desk::new();
    let task = running(&mut desk);
    let first = ask(&mut desk, task);
    assert_eq!((first.agent_name.as_deref(), first.questions.as_ref().unwrap().len()), (Some("ann"), 2));
    let none = answer(first.id, AskBehavior::Allow);
    let denied = AskRespondParams { behavior: AskBehavior::Deny, ..answers(&first, &[("Which one?", "A")]) };
    for (params, wrong) in [
        (none, "no question is answered"),
        (answers(&first, &[]), "no question is answered"),
        (answers(&first, &[("Which one?", "A"), ("Why?", "A")]), "nobody asked \"Why?\""),
        (answers(&first, &[("Which one?", " ")]), "is empty"),
        (answers(&first, &[("Which one?", "A, B")]), "more than one label"),
        (answers(&first, &[("Which one?", "B, A, then B")]), "more than one label"),
        (denied, "a question that is denied"),
    ] {
        let refused = desk.refused::<AskRespond>(&person(), params, Kind::InvalidParams);
        assert_eq!(refused.data["path"], "answers");
        assert!(refused.message.contains(wrong), "{wrong}: {refused}");
    }
    for (params, path) in [
        (AskRespondParams { mode: Some("plan".into()), ..answers(&first, &[("Which one?", "A")]) }, "mode"),
        (
            AskRespondParams { updated_input: Some(json!({})), ..answers(&first, &[("Which one?", "A")]) },
            "updatedInput",
        ),
        (answers(&first, &[("Which one?", &"x".repeat(40_000))]), "answers"),
    ] {
        assert_eq!(desk.refused::<AskRespond>(&person(), params, Kind::InvalidParams).data["path"], path);
    }
    assert_eq!(desk.get(task).pending_asks, 1);
    for given in [
        &[("Which one?", "A, then B")][..],
        &[("Which one?", "neither, A would break it")],
        &[("Which one?", "B"), ("Which of them?", "C, D")],
        &[("Which of them?", "D, and one more")],
    ] {
        let id = ask(&mut desk, task);
        let kept = desk.ok::<AskRespond>(&person(), answers(&id, given)).answer.unwrap().answers.unwrap();
        let given: BTreeMap<String, String> =
            given.iter().map(|(question, answer)| ((*question).into(), (*answer).into())).collect();
        assert_eq!(kept, given);
    }
}

/// I11, A17, C47, E73: a question is a person's to answer, the first answer counts, and it goes with its run.
#[test]
fn only_a_person_answers_a_question() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &[]);
    let task = running(&mut desk);
    let first = ask(&mut desk, task);
    let given = answers(&first, &[("Which one?", "A")]);
    desk.refused::<AskRespond>(&agent(task), given.clone(), Kind::NotAuthorised);
    desk.refused::<AskRespond>(&member(10, "red", "lead"), given.clone(), Kind::NotFound);
    desk.ok::<AskRespond>(&person(), given.clone());
    let late = desk.refused::<AskRespond>(&person(), given, Kind::AskAnswered);
    assert_eq!(late.data["ask"]["answer"]["answers"], json!({ "Which one?": "A" }));
    let second = ask(&mut desk, task);
    desk.ok::<TaskStop>(&person(), TaskStopParams { task_id: task.to_string(), ..Default::default() });
    let gone =
        desk.refused::<AskRespond>(&person(), answers(&second, &[("Which one?", "A")]), Kind::AskAnswered);
    assert_eq!(gone.data["ask"]["state"], json!(AskState::Withdrawn));
}
