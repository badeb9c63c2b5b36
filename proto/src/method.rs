//! The list of methods: each is a type with a name, params and a result.
//!
//! `calls!` lists what the core answers, and makes the `Request` and `Response` that it takes and gives.
//! `edges!` lists what an edge answers: facts about the daemon, files and connections that the core doesn't know.

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Acked, Empty, agent, ask, daemon, definition, event, hook, mailbox, mcp, message, notification,
    permission, provider, runner, session, task, tasklist, team, trust,
};

/// A method of the contract.
pub trait Method: 'static {
    /// Its name on the wire, `resource.verb`.
    const NAME: &'static str;
    /// What it does, in a sentence.
    const SUMMARY: &'static str;
    /// Its params: one object.
    type Params: Serialize + DeserializeOwned + JsonSchema + Send + 'static;
    /// Its result.
    type Result: Serialize + DeserializeOwned + JsonSchema + Send + 'static;
}

/// A subscription of the contract: the answer is an id, items come as notifications.
pub trait Subscription: 'static {
    /// Its name on the wire.
    const NAME: &'static str;
    /// The method that ends it.
    const UNSUBSCRIBE: &'static str;
    /// The method of its notifications.
    const NOTIFICATION: &'static str;
    /// What it does, in a sentence.
    const SUMMARY: &'static str;
    /// Its params: one object.
    type Params: Serialize + DeserializeOwned + JsonSchema + Send + 'static;
    /// One item.
    type Item: Serialize + DeserializeOwned + JsonSchema + Send + 'static;
}

/// A method that the core answers.
pub trait Call: Method {
    /// Wraps the params.
    fn request(params: Self::Params) -> Request;
    /// Unwraps the result; `None` for another method's.
    fn result(response: Response) -> Option<Self::Result>;
}

/// Declares marker types for methods.
macro_rules! methods {
    ($($name:ident $wire:literal $params:ty => $result:ty, $summary:literal;)*) => {
        $(
            #[doc = $summary]
            #[derive(Debug)]
            pub struct $name;

            impl Method for $name {
                const NAME: &'static str = $wire;
                const SUMMARY: &'static str = $summary;
                type Params = $params;
                type Result = $result;
            }
        )*
    };
}

/// Declares the methods that the core answers, with `Request` and `Response`.
macro_rules! calls {
    ($d:tt $($name:ident $wire:literal $params:ty => $result:ty, $summary:literal;)*) => {
        methods! { $($name $wire $params => $result, $summary;)* }

        /// A call to the core: one variant a method.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Request { $(#[doc = $summary] $name($params),)* }

        impl Request {
            /// The method's name.
            pub const fn name(&self) -> &'static str {
                match self { $(Self::$name(_) => $wire,)* }
            }
        }

        /// The core's answer: one variant a method.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Response { $(#[doc = $summary] $name($result),)* }

        $(
            impl Call for $name {
                fn request(params: $params) -> Request {
                    Request::$name(params)
                }

                fn result(response: Response) -> Option<$result> {
                    if let Response::$name(result) = response { Some(result) } else { None }
                }
            }
        )*

        /// Calls a macro with every method that the core answers: `$then!(Name, Name, …)`.
        #[macro_export]
        macro_rules! for_each_call { ($d then:ident) => { $d then! { $($name),* } }; }
    };
}

/// Declares the methods that an edge answers.
macro_rules! edges {
    ($d:tt $($name:ident $wire:literal $params:ty => $result:ty, $summary:literal;)*) => {
        methods! { $($name $wire $params => $result, $summary;)* }

        /// Calls a macro with every method that an edge answers: `$then!(Name, Name, …)`.
        #[macro_export]
        macro_rules! for_each_edge { ($d then:ident) => { $d then! { $($name),* } }; }
    };
}

calls! { $
    SessionOpen "session.open" session::SessionOpenParams => session::SessionOpenResult,
        "Opens a session.";
    SessionList "session.list" session::PageParams => session::SessionListResult,
        "Lists the sessions.";
    SessionGet "session.get" session::SessionGetParams => session::Session,
        "Gives one session.";
    SessionClose "session.close" session::SessionCloseParams => Empty,
        "Ends a session with its tasks, and its teams unless they are kept.";
    SessionPause "session.pause" session::SessionPauseParams => Empty,
        "Starts nothing new in a session, or anywhere, until it is unpaused.";
    SessionUnpause "session.unpause" session::SessionPauseParams => Empty,
        "Lets a paused session, or the daemon, start agents again.";
    SessionPrompt "session.prompt" session::SessionPromptParams => session::SessionPromptResult,
        "Says something to a session's lead, which begins a turn of it.";
    SessionInterrupt "session.interrupt" session::SessionInterruptParams => session::SessionInterruptResult,
        "Ends the turn of a session's lead, and answers once it has ended.";
    SessionSetMode "session.setMode" session::SessionSetParams => Empty,
        "Sets what a session's lead may do unasked, from its next call on.";
    SessionSetModel "session.setModel" session::SessionSetParams => Empty,
        "Sets the model of a session's lead, from its next request on.";
    AgentSpawn "agent.spawn" agent::AgentSpawnParams => agent::AgentSpawnResult,
        "Spawns an agent.";
    AgentExplain "agent.explain" agent::AgentSpawnParams => agent::AgentExplainResult,
        "Says what a spawn would do, and why, without doing it.";
    TaskList "task.list" task::TaskListParams => task::TaskListResult,
        "Lists tasks: live and held ones, or all of them.";
    TaskGet "task.get" task::TaskGetParams => task::Task,
        "Gives one task.";
    TaskWait "task.wait" task::TaskWaitParams => task::TaskWaitResult,
        "Waits for tasks.";
    TaskStop "task.stop" task::TaskStopParams => task::TaskStopResult,
        "Ends a task and everything below it; answers after the operating system confirmed it.";
    TaskStopAll "task.stopAll" task::TaskStopAllParams => task::TaskStopAllResult,
        "Ends every running task, and waits for their ends up to a bound.";
    TaskResume "task.resume" task::TaskResumeParams => agent::AgentSpawnResult,
        "Runs an ended task again under the same id.";
    TaskBackground "task.background" task::TaskGetParams => task::Task,
        "Moves a foreground task to the background: its caller is answered at once.";
    TaskForeground "task.foreground" task::TaskForegroundParams => agent::AgentSpawnResult,
        "Waits for a background task as if it had been spawned in the foreground.";
    TaskRetain "task.retain" task::TaskRetainParams => task::Task,
        "Keeps a task in view after its end, or says when it leaves.";
    TaskRemove "task.remove" task::TaskRemoveParams => Empty,
        "Deletes an ended task with its record and files.";
    TaskPrune "task.prune" task::TaskPruneParams => task::TaskPruneResult,
        "Deletes tasks that ended long ago.";
    NotificationList "notification.list" notification::NotificationListParams => notification::NotificationListResult,
        "Lists notifications that were not acknowledged.";
    NotificationNext "notification.next" notification::NotificationNextParams => notification::NotificationListResult,
        "Takes notifications, and waits for one where asked.";
    NotificationAck "notification.ack" notification::NotificationAckParams => Acked,
        "Acknowledges notifications.";
    MessageSend "message.send" message::MessageSendParams => message::MessageSendResult,
        "Sends a message.";
    MessageRoute "message.route" message::MessageRouteParams => message::MessageRouteResult,
        "Says where a message would go.";
    MessageDeliver "message.deliver" message::MessageDeliverParams => message::Delivered,
        "Takes a message from another program or daemon.";
    MailboxRead "mailbox.read" mailbox::MailboxReadParams => mailbox::MailboxReadResult,
        "Reads a mailbox and changes nothing.";
    MailboxPoll "mailbox.poll" mailbox::MailboxPollParams => mailbox::MailboxReadResult,
        "Takes messages, and waits for one where asked.";
    MailboxAck "mailbox.ack" mailbox::MailboxAckParams => Acked,
        "Acknowledges messages.";
    AskList "ask.list" ask::AskListParams => ask::AskListResult,
        "Lists asks.";
    AskGet "ask.get" ask::AskGetParams => ask::Ask,
        "Gives one ask.";
    AskRespond "ask.respond" ask::AskRespondParams => ask::Ask,
        "Answers an ask; the first answer counts.";
    PermissionAddRule "permission.addRule" permission::PermissionAddRuleParams => permission::PermissionChangeResult,
        "Adds a permission rule to a session, or to a settings file.";
    PermissionRemoveRule "permission.removeRule" permission::PermissionRemoveRuleParams => permission::PermissionChangeResult,
        "Takes a permission rule out of a session, or out of a settings file.";
    TeamCreate "team.create" team::TeamCreateParams => team::Team,
        "Makes a team.";
    TeamGet "team.get" team::TeamGetParams => team::Team,
        "Gives one team.";
    TeamList "team.list" session::PageParams => team::TeamListResult,
        "Lists the teams.";
    TeamDelete "team.delete" team::TeamDeleteParams => Empty,
        "Deletes a team whose members are gone.";
    TeamJoin "team.join" team::TeamJoinParams => team::TeamJoinResult,
        "Makes this connection a member of a team.";
    TeamLeave "team.leave" Empty => Empty,
        "Ends this connection's membership.";
    TeamHeartbeat "team.heartbeat" Empty => team::Member,
        "Says that this member is still there.";
    TasklistCreate "tasklist.create" tasklist::TasklistCreateParams => tasklist::Item,
        "Puts an item on a task list.";
    TasklistGet "tasklist.get" tasklist::TasklistGetParams => tasklist::Item,
        "Gives one item of a task list.";
    TasklistList "tasklist.list" tasklist::TasklistListParams => tasklist::TasklistListResult,
        "Lists the items of a task list.";
    TasklistUpdate "tasklist.update" tasklist::TasklistUpdateParams => tasklist::Item,
        "Changes an item of a task list.";
    TasklistDelete "tasklist.delete" tasklist::TasklistGetParams => Empty,
        "Takes an item off a task list.";
    TasklistClaim "tasklist.claim" tasklist::TasklistClaimParams => tasklist::Item,
        "Makes an item its caller's, where nobody else has it and nothing blocks it.";
    TasklistNext "tasklist.next" tasklist::TasklistNextParams => tasklist::TasklistNextResult,
        "Claims the first item that can be claimed.";
}

edges! { $
    DaemonHello "daemon.hello" daemon::DaemonHelloParams => daemon::DaemonHelloResult,
        "Tells who the client is, and who it is to the daemon.";
    DaemonStatus "daemon.status" Empty => daemon::DaemonStatusResult,
        "Says how the daemon is.";
    DaemonMetrics "daemon.metrics" Empty => daemon::DaemonMetricsResult,
        "Gives the daemon's metrics.";
    DaemonConfig "daemon.config" daemon::DaemonConfigParams => daemon::DaemonConfigResult,
        "Gives config values with their sources.";
    DaemonSetFlag "daemon.setFlag" daemon::DaemonSetFlagParams => daemon::DaemonSetFlagResult,
        "Sets a feature flag until the daemon ends.";
    DaemonReload "daemon.reload" Empty => daemon::DaemonReloadResult,
        "Reads the config again.";
    DaemonShutdown "daemon.shutdown" daemon::DaemonShutdownParams => daemon::DaemonShutdownResult,
        "Ends the daemon.";
    DaemonExport "daemon.export" daemon::DaemonExportParams => daemon::DaemonExportResult,
        "Writes the whole store to a file.";
    DefinitionList "definition.list" definition::DefinitionListParams => definition::DefinitionListResult,
        "Lists the definitions of agents that there are for the caller.";
    DefinitionGet "definition.get" definition::DefinitionGetParams => definition::DefinitionGetResult,
        "Gives one definition, where it is from, and which others it shadows.";
    DefinitionValidate "definition.validate" definition::DefinitionValidateParams => definition::DefinitionValidateResult,
        "Says what is wrong with a file of a definition.";
    EventReplay "event.replay" event::EventReplayParams => event::EventReplayResult,
        "Gives past events again.";
    HookList "hook.list" hook::HookListParams => hook::HookListResult,
        "Lists the hooks that there are in a place.";
    McpList "mcp.list" mcp::McpListParams => mcp::McpListResult,
        "Lists the MCP servers that there are in a place, and tries them where asked.";
    TrustList "trust.list" trust::TrustListParams => trust::TrustListResult,
        "Lists what a repository brings that runs programs, and whether it may.";
    TrustAdd "trust.add" trust::TrustAddParams => trust::TrustListResult,
        "Lets what a repository brings run, as long as it stays as it is.";
    TrustRemove "trust.remove" trust::TrustRemoveParams => trust::TrustListResult,
        "Takes trust back.";
    RunnerList "runner.list" Empty => runner::RunnerListResult,
        "Says which runners this machine has.";
    ProviderList "provider.list" provider::ProviderListParams => provider::ProviderListResult,
        "Lists the providers of models, as the caller's environment leads to them.";
    ProviderTest "provider.test" provider::ProviderTestParams => provider::ProviderTestResult,
        "Asks a model for a word, and says what failed where it does not answer.";
    PermissionCheck "permission.check" permission::PermissionCheckParams => permission::PermissionCheckResult,
        "Says what would become of a tool call, without making it.";
    PermissionRules "permission.rules" permission::PermissionRulesParams => permission::PermissionRulesResult,
        "Lists the permission rules that hold in a place.";
    NotificationParse "notification.parse" notification::NotificationParseParams => notification::NotificationParseResult,
        "Reads an XML envelope.";
    TaskOutput "task.output" task::TaskOutputParams => task::TaskOutputResult,
        "Reads a task's output, and waits for more where asked.";
    TaskWrite "task.write" task::TaskWriteParams => task::TaskWriteResult,
        "Writes to a task's standard input.";
    TaskResize "task.resize" task::TaskResizeParams => task::TaskResizeResult,
        "Sets the size of a task's terminal.";
    TaskEvents "task.events" task::TaskEventsParams => task::TaskEventsResult,
        "Reads a task's events file.";
    TaskTranscript "task.transcript" task::TaskTranscriptParams => task::TaskTranscriptResult,
        "Reads what an agent with a model has said and was told.";
    SessionMessages "session.messages" session::SessionMessagesParams => task::TaskTranscriptResult,
        "Reads the conversation with a session's lead.";
    TaskContext "task.context" task::TaskGetParams => task::TaskContextResult,
        "Says what a task works with.";
}
