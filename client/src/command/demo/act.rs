//! The story: three agents start, one is spoken to, one commits, one is stopped against its will.

use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use ccagent_client::Client;
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::mailbox::MailboxPollParams;
use ccagent_proto::message::{Content, MessageSendParams};
use ccagent_proto::method::{
    AgentSpawn, MailboxPoll, MessageSend, NotificationAck, NotificationList, TaskOutput, TaskStop, TaskWait,
    TeamCreate,
};
use ccagent_proto::notification::{NotificationAckParams, NotificationListParams};
use ccagent_proto::task::{
    Task, TaskListParams, TaskOutputParams, TaskStatus, TaskStopParams, TaskWaitParams,
};
use ccagent_proto::team::TeamCreateParams;

use super::stage::{GIT, Stage};
use super::{claim, headline, holds, say};
use crate::command::{list, team};
use crate::render;

const TEAM: &str = "demo";
const QUESTION: &str = "How many words has this question?";
const ANSWER: &str = "6 words.";

/// Ignores TERM, and so does what it leaves running in a session of its own; says both pids.
const STUBBORN: &str = "trap '' TERM; setsid sleep 1000 & echo $$ $!; exec sleep 1000";

/// Writes a file and commits it.
const WRITER: &str =
    "echo 'Written by an agent.' > note.txt && git add note.txt && git commit --quiet --message='Add a note'";

/// Milliseconds that anything may take that takes no time.
const SOON: u64 = 8000;

pub(super) async fn play(stage: &Stage) -> anyhow::Result<()> {
    say("This starts a daemon of its own in a temporary directory, and three real programs as its agents.");
    let client = stage.light().await?;
    holds(&format!("a daemon listens at uds:{}", stage.place.socket.display()));

    headline("Three agents");
    let params = TeamCreateParams { name: Some(TEAM.into()), ..TeamCreateParams::default() };
    client.call::<TeamCreate>(params).await?;
    let stubborn = spawn(stage, &client, "stubborn", shell("ignores every request to end", STUBBORN)).await?;
    let ann = spawn(stage, &client, "ann", teammate(stage)?).await?;
    let writer = spawn(stage, &client, "writer", shell("commits a file to git", WRITER)).await?;
    let pids = pids_of(&client, &stubborn).await?;
    let shown = list::all_pages(&client, TaskListParams::default()).await?;
    say(render::task::tree(&shown.tasks).trim_end());
    claim(
        "stubborn and its grandchild run, each in a session of its own",
        pids.len() == 2 && pids.iter().all(|pid| is_alive(*pid)),
    )?;

    headline("A message to a teammate in another process, and its answer");
    converse(stage).await?;
    let ann = done(&client, &ann).await?;
    claim("ann left the team and completed", ann.status == TaskStatus::Completed)?;

    headline("An agent that works in a git repository");
    let writer = done(&client, &writer).await?;
    claim("writer completed", writer.status == TaskStatus::Completed)?;
    let log = stage.git(&["log", "--format=%an: %s", "--max-count=1"])?;
    claim(&format!("git log says: {log}"), log == "writer: Add a note")?;

    headline("Stopping an agent that will not stop");
    stop(&client, &stubborn, &pids).await?;

    headline("What a lead is told");
    notices(&client).await
}

fn shell(description: &str, script: &str) -> AgentSpawnParams {
    AgentSpawnParams {
        description: Some(description.into()),
        command: Some(["sh", "-c", script].map(str::to_owned).to_vec()),
        ..AgentSpawnParams::default()
    }
}

/// This program again, as a member of the team.
fn teammate(stage: &Stage) -> anyhow::Result<AgentSpawnParams> {
    let own = std::env::current_exe()?;
    let socket = &stage.place.socket;
    let path = |path: &Path| path.to_str().map(str::to_owned).context("a path is not UTF-8");
    Ok(AgentSpawnParams {
        command: Some(vec![
            path(&own)?,
            "--socket".into(),
            path(socket)?,
            "demo-teammate".into(),
            TEAM.into(),
            "ann".into(),
        ]),
        team_name: Some(TEAM.into()),
        description: Some("answers a message in a team".into()),
        ..AgentSpawnParams::default()
    })
}

async fn spawn(
    stage: &Stage,
    client: &Client,
    name: &str,
    params: AgentSpawnParams,
) -> anyhow::Result<String> {
    let params = AgentSpawnParams {
        name: Some(name.into()),
        run_in_background: Some(true),
        cwd: stage.repository.to_str().map(str::to_owned),
        env: Some(GIT.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()),
        ..params
    };
    Ok(client.call::<AgentSpawn>(params).await?.task_id.to_string())
}

/// The pids that a program printed as its first line.
async fn pids_of(client: &Client, task: &str) -> anyhow::Result<Vec<u32>> {
    let params = TaskOutputParams {
        task_id: task.to_owned(),
        block: Some(true),
        timeout_ms: Some(SOON),
        ..TaskOutputParams::default()
    };
    let output = client.call::<TaskOutput>(params).await?;
    let text = output.text.unwrap_or_default();
    Ok(text.split_whitespace().filter_map(|word| word.parse().ok()).collect())
}

fn is_alive(pid: u32) -> bool {
    // A process that ended and was not collected yet is no longer alive.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z')))
}

/// Joins the team on a connection of its own, asks ann, and takes her answer.
async fn converse(stage: &Stage) -> anyhow::Result<()> {
    let guide = Client::connect(&stage.place.socket).await?;
    team::enter(&guide, TEAM, "guide", None, None).await?;
    let question = MessageSendParams {
        to: "ann".into(),
        message: Content::Text(QUESTION.into()),
        ..MessageSendParams::default()
    };
    guide.call::<MessageSend>(question).await?;
    say(&format!("  guide to ann: {QUESTION}"));
    loop {
        let params = MailboxPollParams { wait_ms: Some(SOON), ..MailboxPollParams::default() };
        let answers = guide.call::<MailboxPoll>(params).await?.messages;
        anyhow::ensure!(!answers.is_empty(), "ann did not answer");
        for message in answers {
            team::acknowledge(&guide, message.id).await?;
            if message.from == "ann" && message.kind == ccagent_proto::message::MessageKind::Text {
                say(&format!("  ann to guide: {}", render::line(&message.text)));
                return claim("the answer is right", message.text == ANSWER);
            }
        }
    }
}

/// Waits for a task's end.
async fn done(client: &Client, task: &str) -> anyhow::Result<Task> {
    let params = TaskWaitParams {
        task_ids: vec![task.to_owned()],
        timeout_ms: Some(SOON),
        ..TaskWaitParams::default()
    };
    let waited = client.call::<TaskWait>(params).await?;
    waited
        .tasks
        .into_iter()
        .next()
        .filter(|_| !waited.timed_out)
        .with_context(|| format!("{task} did not end"))
}

async fn stop(client: &Client, task: &str, pids: &[u32]) -> anyhow::Result<()> {
    say("  it ignores TERM; after half a second of grace it is killed, with everything below it");
    let begun = Instant::now();
    let params = TaskStopParams {
        task_id: task.to_owned(),
        grace_ms: Some(500),
        reason: Some("the demo is over".into()),
        ..TaskStopParams::default()
    };
    let stopped = client.call::<TaskStop>(params).await?;
    let took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    claim(
        &format!("stubborn is {} after {}", stopped.task.status.word(), render::span(took)),
        stopped.task.status == TaskStatus::Killed,
    )?;
    claim(
        "tree verified empty: the grandchild in its own session is gone too",
        pids.iter().all(|pid| !is_alive(*pid)),
    )
}

async fn notices(client: &Client) -> anyhow::Result<()> {
    let listed = client.call::<NotificationList>(NotificationListParams::default()).await?;
    for notification in &listed.notifications {
        say(&format!("  {}", render::mail::notice(notification)));
    }
    claim("one notification for each agent, kept until acknowledged", listed.notifications.len() == 3)?;
    let ids = listed.notifications.iter().map(|notification| notification.id).collect();
    let acked = client.call::<NotificationAck>(NotificationAckParams { ids }).await?;
    claim("acknowledged", acked.acked == 3)
}
