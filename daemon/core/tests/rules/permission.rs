//! Rules that an operator adds: what the core keeps of them, and how long.

use ccagent_core::ask::answer::{GRANT_BYTES, Granted, RULES_MOST};
use ccagent_core::bounds::RULE_MOST;
use ccagent_proto::method::{PermissionAddRule, PermissionRemoveRule, SessionClose, SessionOpen};
use ccagent_proto::permission::{
    PermissionAddRuleParams, PermissionBehavior, PermissionDestination, PermissionRemoveRuleParams,
};
use ccagent_proto::session::{SessionCloseParams, SessionOpenParams};
use ccagent_proto::{Kind, SessionId};

use PermissionBehavior::{Allow, Ask, Deny};
use PermissionDestination::{Local, Project, Session, User};

use crate::desk::{Desk, agent, background, person};

fn add(
    rule: &str,
    behavior: PermissionBehavior,
    destination: PermissionDestination,
    session: &SessionId,
) -> PermissionAddRuleParams {
    let (rule, session_id, cwd) = (rule.to_owned(), Some(session.clone()), Some("/repo".to_owned()));
    PermissionAddRuleParams { rule, behavior, destination, session_id, cwd }
}

/// rpc.md, permission.addRule, I11: what was said for a session ends with it; of what a file says only what allows is remembered, for its
/// repository and its file, and all of it over a restart.
#[test]
fn a_rule_is_kept_where_it_belongs() {
    let mut desk = Desk::new();
    let opened = desk.ok::<SessionOpen>(&person(), SessionOpenParams::default()).session_id;
    for (rule, behavior, destination, changed) in [
        ("A", Allow, Session, true),
        ("A", Allow, Session, false),
        ("B", Deny, Session, true),
        ("C", Ask, Session, true),
        ("D", Allow, Local, true),
        ("E", Allow, Project, true),
        ("F", Deny, Local, false),
        ("G", Ask, Project, false),
        ("H", Allow, User, false),
    ] {
        let added = desk.ok::<PermissionAddRule>(&person(), add(rule, behavior, destination, &opened));
        assert_eq!(added.changed, changed, "{rule}");
    }
    desk.restart();
    let session = vec![(Deny, "B".into()), (Ask, "C".into()), (Allow, "A".into())];
    let all = Granted { session, local: vec!["D".into()], project: vec!["E".into()] };
    assert_eq!(desk.core.granted(&opened, "/repo"), all);
    assert_eq!(desk.core.granted(&SessionId::main(), "/other"), Granted::default());
    for (rule, behavior, destination, changed) in [
        ("B", Some(Allow), Session, false),
        ("B", None, Session, true),
        ("D", None, Project, false),
        ("D", None, Local, true),
    ] {
        let params = PermissionRemoveRuleParams {
            rule: rule.to_owned(),
            destination,
            behavior,
            session_id: Some(opened.clone()),
            cwd: Some("/repo".to_owned()),
        };
        let removed = desk.ok::<PermissionRemoveRule>(&person(), params);
        assert_eq!(removed.changed, changed, "{rule} {behavior:?} {destination:?}");
    }
    let granted = desk.core.granted(&opened, "/repo");
    assert_eq!((granted.session.len(), granted.local.len(), granted.project.len()), (2, 0, 1));
    desk.ok::<SessionClose>(&person(), SessionCloseParams { session_id: opened.clone(), keep_teams: None });
    assert_eq!(desk.core.granted(&opened, "/repo").session, []);
}

/// L1, I8, SV-05: an agent adds no rule; a session that there is not, a rule without an end and too many rules are refused.
#[test]
fn a_rule_that_can_not_be_kept_is_refused() {
    let mut desk = Desk::new();
    let main = SessionId::main();
    let task = desk.spawn(background());
    desk.started(task);
    desk.refused::<PermissionAddRule>(&agent(task), add("A", Allow, Session, &main), Kind::NotAuthorised);
    let gone = SessionId("session_gone".into());
    desk.refused::<PermissionAddRule>(&person(), add("A", Allow, Session, &gone), Kind::NotFound);
    let long = add(&"x".repeat(RULE_MOST + 1), Allow, Session, &main);
    desk.refused::<PermissionAddRule>(&person(), long, Kind::InvalidParams);
    for at in 0..RULES_MOST {
        desk.ok::<PermissionAddRule>(&person(), add(&format!("R{at}"), Deny, Session, &main));
    }
    desk.refused::<PermissionAddRule>(&person(), add("A", Allow, Session, &main), Kind::BadConfig);
    desk.ok::<PermissionAddRule>(&person(), add("R0", Deny, Session, &main));

    let mut desk = Desk::new();
    for at in 0..GRANT_BYTES / RULE_MOST {
        let rule = format!("{at:x>RULE_MOST$}");
        desk.ok::<PermissionAddRule>(&person(), add(&rule, Deny, Session, &main));
    }
    desk.refused::<PermissionAddRule>(&person(), add("A", Allow, Session, &main), Kind::BadConfig);
}
