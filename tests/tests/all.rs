//! Black-box tests: real daemons, real programs, and clients that know nothing but the socket. One file a noun.

#![cfg(test)]

mod all {
    mod agent_list;
    mod agents;
    mod ask;
    mod attach;
    mod background;
    mod cli;
    mod confine;
    mod context;
    mod coordinator;
    mod default_mode;
    mod definition;
    mod event;
    mod executor;
    mod explain;
    mod force;
    mod fork;
    mod framing;
    mod full_disk;
    mod hook;
    mod hostile;
    mod idempotency;
    mod lead;
    mod lifecycle;
    mod llm;
    mod log;
    mod mailbox;
    mod mcp;
    mod mcp_change;
    mod mcp_rest;
    mod mcp_share;
    mod mcp_words;
    mod message;
    mod node;
    mod notification;
    mod output;
    mod overrides;
    mod permission;
    mod permission_rule;
    mod plan;
    mod plugin;
    mod process;
    mod provider;
    mod question;
    mod restart;
    mod role;
    mod runner;
    mod server;
    mod session;
    mod session_lead;
    mod shell;
    mod shim;
    mod spawn;
    mod stall;
    mod stop;
    mod store;
    mod systemd;
    mod task;
    mod tasklist;
    mod team;
    mod transcript;
    mod trust;
    mod web_search;
}
