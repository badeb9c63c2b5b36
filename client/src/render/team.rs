//! Teams and sessions.

use ccagent_proto::session::Session;
use ccagent_proto::team::{Member, Presence, Team};
use comfy_table::{Cell, Color};

use super::task::word;
use super::{cell, details, table, time};

/// Teams, one a line.
pub(crate) fn list(teams: &[Team]) -> String {
    let rows = teams
        .iter()
        .map(|team| {
            let present = |member: &&Member| member.presence == Presence::Connected;
            vec![
                cell(&team.name),
                cell(&team.lead_agent_id),
                Cell::new(team.members.len()),
                Cell::new(team.members.iter().filter(present).count()),
                Cell::new(time(team.created_at)),
                cell(team.description.as_deref().unwrap_or_default()),
            ]
        })
        .collect();
    table(&["TEAM", "LEAD", "MEMBERS", "CONNECTED", "CREATED", "FOR"], rows)
}

/// One team with its members.
pub(crate) fn full(team: &Team) -> String {
    let head = details(&[
        ("team", Some(team.name.clone())),
        ("for", team.description.clone()),
        ("lead", Some(team.lead_agent_id.clone())),
        ("created", Some(time(team.created_at))),
        ("revision", Some(team.revision.to_string())),
    ]);
    let rows = team
        .members
        .iter()
        .map(|member| {
            vec![
                cell(&member.name),
                Cell::new(word(&member.presence)).fg(colour(member.presence)),
                Cell::new(match member.is_active {
                    Some(false) => "idle",
                    Some(true) | None => "active",
                }),
                cell(member.agent_type.as_deref().unwrap_or_default()),
                cell(&member.task_id.map(|id| id.to_string()).unwrap_or_default()),
                cell(&member.cwd),
            ]
        })
        .collect();
    format!("{head}\n{}", table(&["MEMBER", "PRESENCE", "STATE", "TYPE", "TASK", "DIRECTORY"], rows))
}

fn colour(presence: Presence) -> Color {
    match presence {
        Presence::Connected => Color::Green,
        Presence::Absent => Color::Yellow,
        Presence::Ended => Color::DarkGrey,
    }
}

/// Sessions, one a line.
pub(crate) fn sessions(sessions: &[Session]) -> String {
    let rows = sessions
        .iter()
        .map(|session| {
            vec![
                cell(&session.id.0),
                cell(&session.name),
                Cell::new(if session.paused { "paused" } else { "open" }),
                Cell::new(session.live_tasks),
                Cell::new(session.pending_notifications),
                cell(session.cwd.as_deref().unwrap_or_default()),
            ]
        })
        .collect();
    table(&["SESSION", "NAME", "STATE", "TASKS", "NOTICES", "DIRECTORY"], rows)
}
