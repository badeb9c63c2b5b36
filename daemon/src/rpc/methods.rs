//! The list of methods: which function answers which, and what becomes of a call whose caller goes away.

use std::sync::Arc;

use ccagent_proto::ask::AskSubscribe;
use ccagent_proto::event::EventSubscribe;
use ccagent_proto::mailbox::MailboxSubscribe;
use ccagent_proto::method::{self as wire, Call};
use ccagent_proto::task::TaskFollow;
use ccagent_proto::{Error, openrpc};
use jsonrpsee::server::RegisterMethodError;

use super::connection::Origin;
use super::context::Context;
use super::registry::{Api, Gate, Registry};
use super::{
    ask, daemon, definition, events, explain, hook, lead, mail, mcp, permission, provider, session, spawn,
    stop, task, transcript, trust,
};

/// All methods of the daemon.
///
/// # Errors
/// When two methods have one name.
pub fn api(context: Arc<Context>) -> Result<Api, RegisterMethodError> {
    let driver = context.handle.clone();
    let handle = driver.clone();
    let gate: Gate = Arc::new(move |caller, method| {
        let handle = handle.clone();
        Box::pin(async move { handle.ask(move |core, _| core.admits(&caller, method)).await? })
    });
    let mut registry = Registry::new(context, gate);
    core_methods(&mut registry);
    waiting_methods(&mut registry);
    daemon_methods(&mut registry);
    registry.subscription::<EventSubscribe, _, _>(events::subscribe);
    registry.subscription::<AskSubscribe, _, _>(ask::subscribe);
    registry.subscription::<MailboxSubscribe, _, _>(mail::subscribe);
    registry.subscription::<TaskFollow, _, _>(task::follow);
    registry.fixed("rpc.discover", openrpc::document);
    Ok(registry.finish()?.bounded_by(driver))
}

/// What the core answers and nothing has to wait for.
fn core_methods(registry: &mut Registry<Context>) {
    macro_rules! read { ($($name:ident),*) => { $(registry.read::<wire::$name, _, _>(plain::<wire::$name>);)* }; }
    macro_rules! work { ($($name:ident),*) => { $(registry.work::<wire::$name, _, _>(plain::<wire::$name>);)* }; }
    macro_rules! page { ($($name:ident),*) => { $(registry.page::<wire::$name, _, _>(plain::<wire::$name>);)* }; }
    read!(AskGet, SessionGet, TaskGet, MessageRoute, TasklistGet);
    page!(AskList, SessionList, TaskList, NotificationList, MailboxRead, TeamGet, TeamList, TasklistList);
    work!(SessionClose, SessionPause, SessionUnpause, SessionSetMode, TaskBackground, TaskRetain, TaskPrune);
    work!(NotificationAck, MessageDeliver, MailboxAck, TeamCreate, TeamDelete, TeamHeartbeat);
    work!(TasklistCreate, TasklistUpdate, TasklistDelete, TasklistClaim, TasklistNext);
    registry.page::<wire::AgentExplain, _, _>(explain::explain);
    registry.page::<wire::DefinitionList, _, _>(definition::list);
    registry.page::<wire::DefinitionGet, _, _>(definition::get);
    registry.read::<wire::DefinitionValidate, _, _>(definition::validate);
    registry.page::<wire::ProviderList, _, _>(provider::list);
    registry.read::<wire::PermissionCheck, _, _>(permission::check);
    registry.page::<wire::PermissionRules, _, _>(permission::rules);
    registry.work::<wire::PermissionAddRule, _, _>(permission::rule::add);
    registry.work::<wire::PermissionRemoveRule, _, _>(permission::rule::remove);
    registry.page::<wire::TrustList, _, _>(trust::list);
    registry.work::<wire::TrustAdd, _, _>(trust::add);
    registry.work::<wire::TrustRemove, _, _>(trust::remove);
    registry.page::<wire::HookList, _, _>(hook::list);
    registry.work::<wire::SessionOpen, _, _>(session::open);
    registry.work::<wire::SessionPrompt, _, _>(lead::prompt);
    registry.work::<wire::SessionInterrupt, _, _>(lead::interrupt);
    registry.work::<wire::SessionSetModel, _, _>(lead::set_model);
    registry.page::<wire::SessionMessages, _, _>(lead::messages);
    registry.work::<wire::TeamJoin, _, _>(session::join);
    registry.work::<wire::TeamLeave, _, _>(session::leave);
}

/// What waits, reads files or reaches out.
fn waiting_methods(registry: &mut Registry<Context>) {
    registry.work::<wire::AskRespond, _, _>(ask::respond);
    registry.work::<wire::AgentSpawn, _, _>(spawn::spawn);
    registry.work::<wire::TaskResume, _, _>(spawn::resume);
    registry.work::<wire::TaskForeground, _, _>(spawn::foreground);
    registry.work::<wire::TaskStop, _, _>(stop::stop);
    registry.work::<wire::TaskStopAll, _, _>(stop::stop_all);
    registry.work::<wire::TaskRemove, _, _>(stop::remove);
    registry.read::<wire::TaskWait, _, _>(task::wait);
    registry.take::<wire::TaskOutput, _, _>(task::output);
    registry.page::<wire::TaskEvents, _, _>(task::events);
    registry.page::<wire::TaskTranscript, _, _>(transcript::transcript);
    registry.page::<wire::TaskContext, _, _>(transcript::context);
    // Mostly it waits for the program to read. Its bytes are kept meanwhile, as many as a connection's calls may hold.
    registry.read::<wire::TaskWrite, _, _>(task::write);
    // The size is with the attempt at once; only that the program has it is waited for.
    registry.read::<wire::TaskResize, _, _>(task::resize);
    registry.take::<wire::NotificationNext, _, _>(mail::next_notification);
    registry.read::<wire::NotificationParse, _, _>(mail::parse_notification);
    registry.take::<wire::MailboxPoll, _, _>(mail::poll);
    registry.work::<wire::MessageSend, _, _>(mail::send);
    registry.read::<wire::ProviderTest, _, _>(provider::test);
    // It may start programs, which end with it.
    registry.read::<wire::McpList, _, _>(mcp::list);
    registry.page::<wire::EventReplay, _, _>(events::replay);
}

/// What concerns the daemon itself.
fn daemon_methods(registry: &mut Registry<Context>) {
    // It may take a member's seat: taken back half-way, the core and the connection would not agree on who it is.
    registry.work::<wire::DaemonHello, _, _>(daemon::hello);
    registry.read::<wire::DaemonStatus, _, _>(daemon::status);
    registry.page::<wire::DaemonMetrics, _, _>(daemon::metrics);
    registry.read::<wire::DaemonConfig, _, _>(daemon::config);
    registry.work::<wire::DaemonSetFlag, _, _>(daemon::set_flag);
    registry.work::<wire::DaemonReload, _, _>(daemon::reload);
    registry.work::<wire::DaemonExport, _, _>(daemon::export);
    registry.work::<wire::DaemonShutdown, _, _>(daemon::shutdown);
    registry.read::<wire::RunnerList, _, _>(daemon::runners);
}

/// A call that the core answers as it is.
async fn plain<M: Call>(
    context: Arc<Context>,
    origin: Origin,
    params: M::Params,
) -> Result<M::Result, Error> {
    context.call::<M>(&origin.connection.caller(), params).await
}
