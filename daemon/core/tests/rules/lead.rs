//! A session's lead: one task over all prompts, whom nobody has to tell of its own end, and who is woken by what came.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccagent_core::input::{Finished, Report};
use ccagent_core::task::{Brief, Step};
use ccagent_core::{Caller, Effect, Input};
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::mailbox::MailboxPollParams;
use ccagent_proto::message::{Content, MessageSendParams};
use ccagent_proto::method::{
    AgentSpawn, MailboxPoll, MessageSend, NotificationNext, SessionClose, SessionGet, SessionInterrupt,
    SessionOpen, SessionPause, SessionPrompt, SessionSetMode, SessionSetModel, SessionUnpause,
    TaskForeground, TaskGet, TaskRemove, TaskStop,
};
use ccagent_proto::notification::NotificationNextParams;
use ccagent_proto::session::{
    SessionCloseParams, SessionGetParams, SessionInterruptParams, SessionOpenParams, SessionPauseParams,
    SessionPromptParams, SessionSetParams,
};
use ccagent_proto::task::{
    Task, TaskError, TaskForegroundParams, TaskGetParams, TaskRemoveParams, TaskStatus, TaskStopParams,
};
use ccagent_proto::{Kind, MessageId, SessionId, TaskId};

use crate::desk::{Desk, agent, background, person};

/// A desk with a session, and its lead at work.
struct Lab {
    desk: Desk,
    session: SessionId,
    lead: TaskId,
}

fn inside() -> Caller {
    let brief = Brief { model: "offline".into(), permission_mode: "default".into(), ..Brief::default() };
    Caller { brief: Some(Arc::new(brief)), ..person() }
}

impl Lab {
    fn new() -> Self {
        let mut desk = Desk::new();
        let opened = desk.ok::<SessionOpen>(&person(), SessionOpenParams::default());
        let mut lab = Self { desk, session: opened.session_id, lead: opened.main_agent_id };
        assert_eq!(lab.prompt("begin"), 1);
        lab
    }

    fn params(&self, text: &str) -> SessionPromptParams {
        let session_id = Some(self.session.clone());
        SessionPromptParams { session_id, text: text.into(), ..SessionPromptParams::default() }
    }

    /// Prompts, and begins the turn.
    fn prompt(&mut self, text: &str) -> u32 {
        let said = self.desk.ok::<SessionPrompt>(&inside(), self.params(text));
        assert_eq!(said.task_id, self.lead);
        self.begin();
        said.attempt
    }

    fn begin(&mut self) {
        self.desk.report(self.lead, Report::Began);
        let answered = Step::Answered { input: 1, output: 1, micro_usd: None, calls: 0 };
        self.desk.report(self.lead, Report::Worked(answered));
    }

    fn finish(&mut self) {
        let said = Finished { text: Some("said".into()), ..Finished::default() };
        self.desk.report(self.lead, Report::Finished(Box::new(said)));
    }

    fn task(&mut self, id: TaskId) -> Task {
        self.desk.ok::<TaskGet>(&person(), TaskGetParams { task_id: id.to_string() })
    }

    fn stands(&mut self) -> (TaskStatus, u32) {
        let task = self.task(self.lead);
        (task.status, task.attempt)
    }

    /// A program that the lead began.
    fn child(&mut self, params: AgentSpawnParams) -> TaskId {
        let child = self.desk.ok::<AgentSpawn>(&agent(self.lead), params).task_id;
        self.desk.started(child);
        child
    }

    fn end(&mut self, child: TaskId) {
        self.desk.exited(child, 0);
    }

    /// What the session's reader gets.
    fn noted(&mut self) -> Vec<TaskId> {
        let params = NotificationNextParams {
            session_id: Some(self.session.clone()),
            ..NotificationNextParams::default()
        };
        let taken = self.desk.ok::<NotificationNext>(&person(), params);
        taken.notifications.iter().map(|notice| notice.task_id).collect()
    }

    fn interrupt(&mut self) -> Option<TaskId> {
        let params = SessionInterruptParams { session_id: Some(self.session.clone()) };
        self.desk.ok::<SessionInterrupt>(&person(), params).task_id
    }

    fn send(&mut self) {
        let (to, message) = (self.lead.to_string(), Content::Text("look here".into()));
        self.desk
            .ok::<MessageSend>(&person(), MessageSendParams { to, message, ..MessageSendParams::default() });
    }
}

/// RS-07, RS-15, NT-08, H101: all prompts of a session are runs of one task, one at a time; nobody is told of its ends, and
/// it stays for as long as its session.
#[test]
fn prompts_are_runs_of_one_task() {
    let mut lab = Lab::new();
    let (caller, params) = (inside(), lab.params("more"));
    let error = lab.desk.refused::<SessionPrompt>(&caller, params, Kind::StillRunning);
    assert_eq!(error.data["taskId"], lab.lead.to_string());
    lab.finish();
    assert!(lab.noted().is_empty());
    lab.desk.after(1_000_000);
    assert_eq!(lab.stands(), (TaskStatus::Completed, 1));
    assert_eq!(lab.prompt("more"), 2);
    lab.finish();
    lab.desk.restart();
    assert_eq!(lab.stands(), (TaskStatus::Completed, 2));
    let session = lab.desk.ok::<SessionGet>(&person(), SessionGetParams { session_id: lab.session.clone() });
    assert_eq!(session.main_agent_id, lab.lead);
}

/// B25, B38, G4, NT-01: a lead whose turn is over is done only with what it spawned, and each end begins a turn; what came
/// while the last one ended is not left lying.
#[test]
fn each_end_wakes_a_lead_that_sleeps() {
    let mut lab = Lab::new();
    let [one, two] = [lab.child(background()), lab.child(background())];
    lab.finish();
    assert_eq!(lab.stands(), (TaskStatus::Running, 1));
    lab.end(one);
    assert_eq!(lab.stands(), (TaskStatus::Running, 2));
    lab.begin();
    // It ends with nothing taken: both ends came, and there is a turn for them.
    lab.end(two);
    lab.finish();
    assert_eq!(lab.stands(), (TaskStatus::Running, 3));
    assert!(lab.noted().is_empty(), "they are the lead's");
    lab.desk.report(lab.lead, Report::Began);
    lab.finish();
    assert_eq!(lab.stands(), (TaskStatus::Completed, 3), "a turn that did nothing begins no other one");
}

/// B25, B29: where a turn failed, what it did not take is its session's to hear of; the next end wakes it all the same.
#[test]
fn what_a_failed_turn_did_not_take_is_its_sessions() {
    let mut lab = Lab::new();
    let [one, two] = [lab.child(background()), lab.child(background())];
    lab.finish();
    lab.end(one);
    assert_eq!(lab.noted(), []);
    let error = TaskError { kind: "authentication".into(), cause: None, message: "no key".into() };
    let failed = Finished { error: Some(error), ..Finished::default() };
    lab.desk.report(lab.lead, Report::Finished(Box::new(failed)));
    assert_eq!((lab.stands(), lab.noted()), ((TaskStatus::Running, 2), vec![one]));
    lab.end(two);
    assert_eq!(lab.stands(), (TaskStatus::Running, 3));
}

/// B36, D54, SP-14: an interrupt ends the turn and what that waits for; what runs in the background goes on, wakes nobody,
/// and its end is its session's to hear of.
#[test]
fn an_interrupted_lead_is_halted() {
    let mut lab = Lab::new();
    let waited = lab.child(AgentSpawnParams { run_in_background: None, ..background() });
    let free = lab.child(background());
    assert_eq!(lab.interrupt(), Some(lab.lead));
    let stops: Vec<TaskId> = lab
        .desk
        .effects
        .iter()
        .filter_map(|effect| if let Effect::Stop { task, .. } = effect { Some(*task) } else { None })
        .collect();
    assert_eq!(stops, [lab.lead, waited]);
    // What its run held is given back before its end is told.
    lab.desk.input(Input::Disconnected(agent(lab.lead).conn));
    lab.finish();
    assert_eq!(lab.stands(), (TaskStatus::Killed, 1));
    lab.end(waited);
    lab.end(free);
    assert_eq!(lab.stands(), (TaskStatus::Killed, 1));
    lab.send();
    assert_eq!(lab.stands(), (TaskStatus::Killed, 1));
    assert_eq!(lab.noted(), [waited, free]);
    assert_eq!(lab.interrupt(), None);
    assert_eq!(lab.prompt("go on"), 2);
}

/// B36, D49: what an interrupt leaves running may spawn while the lead still ends; the lead itself and what it waits for
/// may not.
#[test]
fn what_goes_on_behind_an_interrupt_may_spawn() {
    let mut lab = Lab::new();
    let waited = lab.child(AgentSpawnParams { run_in_background: None, ..background() });
    let free = lab.child(background());
    lab.interrupt();
    for ending in [lab.lead, waited] {
        lab.desk.refused::<AgentSpawn>(&agent(ending), background(), Kind::SpawnRefused);
    }
    lab.desk.ok::<AgentSpawn>(&agent(free), background());
}

/// B25, B29, A2: what another reader of a lead's took and gave back wakes the lead as if it had come just then, be it an end
/// or a message; one whose turn failed is not tried again for that.
#[test]
fn what_is_given_back_wakes_a_lead() {
    let mut lab = Lab::new();
    let child = lab.child(background());
    let failed = TaskError { kind: "authentication".into(), cause: None, message: "no key".into() };
    lab.end(child);
    lab.desk.report(
        lab.lead,
        Report::Finished(Box::new(Finished { error: Some(failed), ..Finished::default() })),
    );
    assert_eq!((lab.stands(), lab.noted()), ((TaskStatus::Failed, 1), vec![child]));
    lab.desk.input(Input::Disconnected(person().conn));
    assert_eq!(lab.stands(), (TaskStatus::Failed, 1));

    let mut lab = Lab::new();
    let child = lab.child(background());
    let wait = TaskForegroundParams { task_id: child.to_string(), ..TaskForegroundParams::default() };
    lab.desk.ok::<TaskForeground>(&person(), wait);
    lab.finish();
    lab.end(child);
    assert_eq!(lab.stands(), (TaskStatus::Completed, 1), "who waits for the end is being told of it");
    lab.desk.input(Input::Disconnected(person().conn));
    assert_eq!(lab.stands(), (TaskStatus::Running, 2));

    let mut lab = Lab::new();
    lab.send();
    let other = Caller { conn: 77, ..person() };
    let own = MailboxPollParams { agent: Some(lab.lead.to_string()), ..MailboxPollParams::default() };
    let ids: Vec<MessageId> =
        lab.desk.ok::<MailboxPoll>(&other, own).messages.iter().map(|message| message.id).collect();
    lab.finish();
    assert_eq!((lab.stands(), ids.len()), ((TaskStatus::Completed, 1), 1));
    lab.desk.input(Input::ReturnMail(other.conn, ids));
    assert_eq!(lab.stands(), (TaskStatus::Running, 2));
}

/// B36: where its turn is over and what it spawned runs, an interrupt halts it as well.
#[test]
fn a_sleeping_lead_can_be_halted() {
    let mut lab = Lab::new();
    let child = lab.child(background());
    lab.finish();
    assert_eq!(lab.interrupt(), Some(lab.lead));
    assert_eq!(lab.stands(), (TaskStatus::Killed, 1));
    lab.end(child);
    assert_eq!((lab.stands(), lab.noted()), ((TaskStatus::Killed, 1), vec![child]));
}

/// A2, A8, MB-15, RT-11: a message wakes a lead that sleeps; in a paused session only once that goes on.
#[test]
fn a_message_wakes_a_lead_unless_its_session_is_paused() {
    let mut lab = Lab::new();
    lab.finish();
    lab.send();
    assert_eq!(lab.stands(), (TaskStatus::Running, 2));
    lab.begin();
    lab.finish();
    let session_id = Some(lab.session.clone());
    // The first message was not taken; it is what the next turn is for.
    lab.desk.ok::<SessionPause>(&person(), SessionPauseParams { session_id: session_id.clone() });
    assert_eq!(lab.stands().1, 3);
    lab.begin();
    lab.finish();
    assert_eq!(lab.stands(), (TaskStatus::Queued, 4));
    lab.desk.ok::<SessionUnpause>(&person(), SessionPauseParams { session_id });
    assert_eq!(lab.stands(), (TaskStatus::Running, 4));
}

/// I14, A9: after a restart that lost its values a lead is woken by nobody; its notices are its session's, and the next
/// prompt brings the values.
#[test]
fn a_lead_without_its_values_is_not_woken() {
    let mut lab = Lab::new();
    lab.finish();
    let env = Some(BTreeMap::from([("KEY".to_owned(), "x".to_owned())]));
    let caller = Caller { vault: Some(7), ..inside() };
    let given = SessionPromptParams { env, ..lab.params("with a key") };
    lab.desk.ok::<SessionPrompt>(&caller, given.clone());
    lab.begin();
    let child = lab.child(background());
    lab.finish();
    lab.desk.restart();
    assert_eq!(lab.stands(), (TaskStatus::Running, 2));
    lab.desk.started(child);
    lab.end(child);
    assert_eq!((lab.stands(), lab.noted()), ((TaskStatus::Completed, 2), vec![child]));
    let params = lab.params("without");
    let error = lab.desk.refused::<SessionPrompt>(&inside(), params, Kind::InvalidParams);
    assert_eq!(error.data["missing"], serde_json::json!(["KEY"]));
    assert_eq!(lab.desk.ok::<SessionPrompt>(&caller, given).attempt, 3);
}

/// A14, H108: a lead that was removed is gone with its conversation, and its session gets another identity.
#[test]
fn a_removed_lead_is_followed_by_another_one() {
    let mut lab = Lab::new();
    lab.finish();
    let params = TaskRemoveParams { task_id: lab.lead.to_string(), force: None };
    lab.desk.ok::<TaskRemove>(&person(), params);
    let session = lab.desk.ok::<SessionGet>(&person(), SessionGetParams { session_id: lab.session.clone() });
    assert_ne!(session.main_agent_id, lab.lead);
    lab.lead = session.main_agent_id;
    assert_eq!(lab.prompt("anew"), 1);
}

/// TM-13: with its session a lead ends, and leaves memory like any other task.
#[test]
fn a_closed_session_releases_its_lead() {
    let mut lab = Lab::new();
    let params = SessionCloseParams { session_id: lab.session.clone(), keep_teams: None };
    lab.desk.ok::<SessionClose>(&person(), params);
    lab.finish();
    assert_eq!(lab.stands().0, TaskStatus::Killed);
    lab.desk.ack_all();
    lab.desk.after(1_000_000);
    assert!(!lab.desk.core.live().any(|row| row.id == lab.lead));
}

/// E68: what is set holds for the lead at once, and shows in its session.
#[test]
fn mode_and_model_are_the_sessions_and_its_leads() {
    let mut lab = Lab::new();
    let set = |value: &str, lab: &Lab| SessionSetParams {
        session_id: Some(lab.session.clone()),
        value: value.into(),
    };
    let (mode, model, bad) = (set("plan", &lab), set("other", &lab), set("loud", &lab));
    lab.desk.ok::<SessionSetMode>(&person(), mode);
    lab.desk.ok::<SessionSetModel>(&person(), model);
    lab.desk.refused::<SessionSetMode>(&person(), bad, Kind::InvalidParams);
    let setting = lab.desk.core.setting(lab.lead).unwrap();
    assert_eq!((setting.mode.as_str(), setting.model.as_str(), setting.leads), ("plan", "other", true));
    lab.desk.restart();
    let session = lab.desk.ok::<SessionGet>(&person(), SessionGetParams { session_id: lab.session.clone() });
    assert_eq!((session.permission_mode.as_str(), session.model.as_deref()), ("plan", Some("other")));
    assert_eq!(lab.stands().0, TaskStatus::Interrupted);
    assert_eq!(lab.prompt("go on"), 2);
    // A stop is final as well.
    let stop = TaskStopParams { task_id: lab.lead.to_string(), ..TaskStopParams::default() };
    lab.desk.ok::<TaskStop>(&person(), stop);
    lab.finish();
    lab.send();
    assert_eq!(lab.stands(), (TaskStatus::Killed, 2));
    lab.desk.input(Input::Tick);
}
