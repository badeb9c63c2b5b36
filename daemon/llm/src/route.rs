//! Which way a spawn takes: an ordered predicate, and the reasons (SP-02 … SP-07).
//!
//! ```text
//! 1 teammate: team and name ─▶ 2 background: asked for ─▶ 3 fork: no type, and there is what to go on from ─▶ 4 sync
//! ```
//!
//! Who asks for the background without a type gets a general agent there, not a fork (C6); a fork is in the background
//! anyway, and can be asked for by its type. Deliberately not here: whether the caller may spawn at all.

use serde::Serialize;

use crate::definition::FORK;

/// Depth of forks below the root at most, unless the configuration says more (C9).
pub const MAX_FORK_DEPTH: u32 = 1;

/// Which type was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Type<'a> {
    /// None.
    #[default]
    Omitted,
    /// This one.
    Named(&'a str),
}

/// A spawn, as far as its way depends on it.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "these are the inputs of a predicate")]
pub struct Asked<'a> {
    /// `teamName` was given.
    pub team_name: bool,
    /// `name` was given.
    pub name: bool,
    /// `runInBackground` of the call.
    pub run_in_background: bool,
    /// `background` of the definition that the type leads to.
    pub definition_background: bool,
    /// `subagentType`.
    pub subagent_type: Type<'a>,
    /// What a spawn without a type gets.
    pub default_type: &'a str,
    /// The feature flag.
    pub fork_feature: bool,
    /// The session is a coordinator's.
    pub coordinator: bool,
    /// There is a conversation in this daemon to go on from.
    pub has_history: bool,
    /// The caller is a fork.
    pub in_fork: bool,
    /// How many forks the caller is below the root.
    pub fork_depth: u32,
    /// How many there may be.
    pub max_fork_depth: u32,
}

/// The way of a spawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Route {
    /// A member of a team.
    Teammate,
    /// An agent whose end is notified.
    Background,
    /// An agent that goes on from its parent's conversation.
    Fork,
    /// An agent that is waited for.
    Sync,
}

impl Route {
    /// Whether the caller goes on at once (FB-07, FK-19).
    pub const fn is_asynchronous(self) -> bool {
        match self {
            Self::Teammate | Self::Background | Self::Fork => true,
            Self::Sync => false,
        }
    }
}

/// The way of a spawn, its type and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Routed {
    /// The way.
    pub route: Route,
    /// The type.
    pub agent_type: String,
    /// Why, step by step.
    pub reasons: Vec<String>,
}

/// Why there is no fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFork {
    /// 1105.
    #[error("a fork can't fork: do the work yourself")]
    InsideFork,
    /// 1106.
    #[error("forks may be {most} deep, and the caller is at depth {depth}")]
    TooDeep {
        /// Where the caller is.
        depth: u32,
        /// How deep they may be.
        most: u32,
    },
    /// 1110.
    #[error("the feature FORK_SUBAGENT is off: name another type")]
    FeatureOff,
    /// 1110.
    #[error("a coordinator does not fork: spawn a worker with all it has to know in its prompt")]
    Coordinator,
    /// 1110.
    #[error("there is no conversation in this daemon that a fork could go on from: name another type")]
    NoHistory,
}

/// Which way a spawn takes.
///
/// # Errors
/// It has to be a fork, and there can be none.
pub fn of(asked: &Asked<'_>) -> Result<Routed, NoFork> {
    let mut reasons = Vec::new();
    let explicit_fork = asked.subagent_type == Type::Named(FORK);
    let route = if is_teammate(asked, &mut reasons) {
        Route::Teammate
    } else if !explicit_fork && is_background(asked, &mut reasons) {
        Route::Background
    } else if explicit_fork {
        reasons.push("the type is `fork`".to_owned());
        can_fork(asked)?;
        Route::Fork
    } else if is_implicit_fork(asked, &mut reasons) {
        depth(asked)?;
        Route::Fork
    } else {
        reasons.push("sync: nothing else applies".to_owned());
        Route::Sync
    };
    let agent_type = match (asked.subagent_type, route) {
        (Type::Named(name), _) => name,
        (Type::Omitted, Route::Fork) => FORK,
        (Type::Omitted, Route::Teammate | Route::Background | Route::Sync) => asked.default_type,
    };
    Ok(Routed { route, agent_type: agent_type.to_owned(), reasons })
}

fn is_teammate(asked: &Asked<'_>, reasons: &mut Vec<String>) -> bool {
    reasons.push(
        match (asked.team_name, asked.name) {
            (true, true) => "teammate: team and name are given",
            (true, false) => "no teammate: there is a team and no name",
            (false, true) => "no teammate: there is a name and no team",
            (false, false) => "no teammate: there is neither team nor name",
        }
        .to_owned(),
    );
    asked.team_name && asked.name
}

fn is_background(asked: &Asked<'_>, reasons: &mut Vec<String>) -> bool {
    let why = if asked.run_in_background {
        "background: the call says so"
    } else if asked.definition_background {
        "background: the definition says so"
    } else if asked.coordinator {
        "background: a coordinator's workers always are"
    } else {
        "no background: neither call nor definition ask for it"
    };
    reasons.push(why.to_owned());
    asked.run_in_background || asked.definition_background || asked.coordinator
}

fn is_implicit_fork(asked: &Asked<'_>, reasons: &mut Vec<String>) -> bool {
    let why = match asked.subagent_type {
        Type::Named(name) => format!("no fork: the type {name:?} is named"),
        Type::Omitted if !asked.fork_feature => "no fork: the feature FORK_SUBAGENT is off".to_owned(),
        Type::Omitted if !asked.has_history => {
            "no fork: there is no conversation in this daemon to go on from".to_owned()
        }
        Type::Omitted => {
            reasons.push("fork: no type is named, and there is a conversation to go on from".to_owned());
            return true;
        }
    };
    reasons.push(why);
    false
}

fn can_fork(asked: &Asked<'_>) -> Result<(), NoFork> {
    if !asked.fork_feature {
        return Err(NoFork::FeatureOff);
    }
    if asked.coordinator {
        return Err(NoFork::Coordinator);
    }
    if !asked.has_history {
        return Err(NoFork::NoHistory);
    }
    depth(asked)
}

fn depth(asked: &Asked<'_>) -> Result<(), NoFork> {
    let (depth, most) = (asked.fork_depth, asked.max_fork_depth);
    if depth < most {
        Ok(())
    } else if asked.in_fork && most <= MAX_FORK_DEPTH {
        Err(NoFork::InsideFork)
    } else {
        Err(NoFork::TooDeep { depth, most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Asked<'static> {
        Asked {
            default_type: "general-purpose",
            fork_feature: true,
            has_history: true,
            max_fork_depth: MAX_FORK_DEPTH,
            ..Asked::default()
        }
    }

    fn route(asked: Asked<'_>) -> Route {
        of(&asked).unwrap().route
    }

    /// SP-02 … SP-07, C6: in all combinations of what is asked, the first of the four that applies wins.
    #[test]
    fn the_first_way_that_applies_wins() {
        for bits in 0_u32..128 {
            let on = |bit: u32| bits & (1 << bit) > 0;
            let asked = Asked {
                team_name: on(0),
                name: on(1),
                run_in_background: on(2),
                definition_background: on(3),
                subagent_type: if on(4) { Type::Named("Explore") } else { Type::Omitted },
                fork_feature: on(5),
                coordinator: on(6),
                ..asked()
            };
            let want = if on(0) && on(1) {
                Route::Teammate
            } else if on(2) || on(3) || on(6) {
                Route::Background
            } else if !on(4) && on(5) {
                Route::Fork
            } else {
                Route::Sync
            };
            let routed = of(&asked).unwrap();
            assert_eq!(routed.route, want, "{asked:?}");
            assert_eq!(routed.agent_type == FORK, want == Route::Fork, "{asked:?}");
            assert_eq!(routed.route.is_asynchronous(), want != Route::Sync);
            assert!(routed.reasons.last().unwrap().starts_with(match want {
                Route::Teammate => "teammate:",
                Route::Background => "background:",
                Route::Fork => "fork:",
                Route::Sync => "sync:",
            }));
        }
    }

    /// SP-38, SP-05: without a conversation, and for a coordinator, no type means no fork, and the reason says so.
    #[test]
    fn without_a_conversation_no_type_is_no_fork() {
        let routed = of(&Asked { has_history: false, ..asked() }).unwrap();
        assert_eq!((routed.route, routed.agent_type.as_str()), (Route::Sync, "general-purpose"));
        assert!(
            routed.reasons.iter().any(|reason| reason.contains("no conversation")),
            "{:?}",
            routed.reasons
        );
        assert_ne!(route(Asked { coordinator: true, ..asked() }), Route::Fork);
    }

    /// C6, FK-19, FK-10, FK-11: a fork can be asked for by its type, and is refused where there can be none.
    #[test]
    fn a_fork_that_is_asked_for_is_made_or_refused() {
        let fork = Asked { subagent_type: Type::Named(FORK), definition_background: true, ..asked() };
        assert_eq!(route(Asked { run_in_background: true, ..fork }), Route::Fork);
        assert_eq!(of(&Asked { fork_feature: false, ..fork }), Err(NoFork::FeatureOff));
        assert_eq!(of(&Asked { has_history: false, ..fork }), Err(NoFork::NoHistory));
        assert_eq!(of(&Asked { coordinator: true, ..fork }), Err(NoFork::Coordinator));
        let child = Asked { in_fork: true, fork_depth: 1, ..fork };
        assert_eq!(of(&child), Err(NoFork::InsideFork));
        assert_eq!(
            of(&Asked { subagent_type: Type::Omitted, definition_background: false, ..child }),
            Err(NoFork::InsideFork)
        );
        assert_eq!(route(Asked { max_fork_depth: 3, ..child }), Route::Fork);
        let deep = Asked { fork_depth: 3, max_fork_depth: 3, ..child };
        assert_eq!(of(&deep), Err(NoFork::TooDeep { depth: 3, most: 3 }));
    }
}
