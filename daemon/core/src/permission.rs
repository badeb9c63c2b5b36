//! Permission rules that an operator adds or takes out: those of a session are kept here, durably; of those that allow
//! something in a repository's files it is remembered that they were added, since only then they count.
//!
//! Deliberately absent: reading a rule, and writing files. The edge does both before it calls, and names the root of the
//! repository as the directory.

use ccagent_proto::permission::{
    PermissionAddRuleParams, PermissionBehavior, PermissionChangeResult, PermissionDestination,
    PermissionRemoveRuleParams,
};
use ccagent_proto::{Error, SessionId};

use crate::ask::answer::{of_project, of_root, of_session};
use crate::caller::Caller;
use crate::core::Core;
use crate::cx::Cx;

/// All that rules do.
const BEHAVIORS: [PermissionBehavior; 3] =
    [PermissionBehavior::Allow, PermissionBehavior::Ask, PermissionBehavior::Deny];

impl Core {
    pub(crate) fn permission_add_rule(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: PermissionAddRuleParams,
    ) -> Result<PermissionChangeResult, Error> {
        let PermissionAddRuleParams { rule, behavior, destination, session_id, cwd } = params;
        let session = self.session_of(caller, session_id.as_ref())?;
        let changed = match kept_in(destination, behavior, &session, cwd.as_deref()) {
            Some(id) => self.grant(cx, id, behavior, vec![rule.into()])?,
            None => false,
        };
        Ok(PermissionChangeResult { changed, path: None })
    }

    pub(crate) fn permission_remove_rule(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: &PermissionRemoveRuleParams,
    ) -> Result<PermissionChangeResult, Error> {
        let session = self.session_of(caller, params.session_id.as_ref())?;
        let mut changed = false;
        for behavior in BEHAVIORS {
            let meant = params.behavior.is_none_or(|meant| meant == behavior);
            let id = kept_in(params.destination, behavior, &session, params.cwd.as_deref());
            let Some(id) = id.filter(|_| meant) else { continue };
            let has = |grant: &mut crate::ask::Grant| {
                grant.that(behavior).iter().any(|rule| **rule == *params.rule)
            };
            let Some(mut grant) = self.grants.get(&id).cloned() else { continue };
            if has(&mut grant) {
                grant.that(behavior).retain(|rule| **rule != *params.rule);
                self.grants.insert(cx, grant);
                changed = true;
            }
        }
        Ok(PermissionChangeResult { changed, path: None })
    }
}

/// The grant in which a rule is kept; none where a file alone says it.
fn kept_in(
    destination: PermissionDestination,
    behavior: PermissionBehavior,
    session: &SessionId,
    root: Option<&str>,
) -> Option<String> {
    let root = root.filter(|_| behavior == PermissionBehavior::Allow);
    match destination {
        PermissionDestination::Session => Some(of_session(session)),
        PermissionDestination::Local => root.map(of_root),
        PermissionDestination::Project => root.map(of_project),
        PermissionDestination::User => None,
    }
}
