//! Task lists: who does what, what waits for what, and that one of many claimers wins.

mod model;

use ccagent_core::record::Write;
use ccagent_core::{Caller, Effect, Input};
use ccagent_proto::method::{
    SessionClose, SessionOpen, TasklistClaim, TasklistCreate, TasklistDelete, TasklistGet, TasklistList,
    TasklistNext, TasklistUpdate, TeamCreate, TeamDelete, TeamJoin, TeamLeave,
};
use ccagent_proto::session::{SessionCloseParams, SessionOpenParams};
use ccagent_proto::tasklist::{
    Item, ItemFilter, ItemPatch, ItemStatus, TasklistClaimParams, TasklistCreateParams, TasklistGetParams,
    TasklistListParams, TasklistNextParams, TasklistUpdateParams,
};
use ccagent_proto::team::{TeamCreateParams, TeamDeleteParams, TeamJoinParams};
use ccagent_proto::{Empty, Error, Kind};
use serde_json::json;

use crate::desk::{Desk, member, person, teammate};
use crate::message::team;

/// A team whose lead is on connection 10, ann on 11, bob on 12.
fn red() -> Desk {
    let mut desk = Desk::new();
    team(&mut desk, "red", &["ann", "bob"]);
    desk
}

fn lead() -> Caller {
    member(10, "red", "lead")
}

fn ann() -> Caller {
    member(11, "red", "ann")
}

fn bob() -> Caller {
    member(12, "red", "bob")
}

fn entry(subject: &str, blocked_by: &[&str]) -> TasklistCreateParams {
    let blocked_by = blocked_by.iter().map(|id| (*id).to_owned()).collect();
    TasklistCreateParams { subject: subject.into(), blocked_by: Some(blocked_by), ..Default::default() }
}

/// Items that wait for others, in the team of the lead.
fn items(desk: &mut Desk, blocked_by: &[&[&str]]) {
    for ids in blocked_by {
        desk.ok::<TasklistCreate>(&lead(), entry("a part", ids));
    }
}

fn id(id: &str) -> TasklistGetParams {
    TasklistGetParams { list: None, item_id: id.into() }
}

fn claim(id: &str) -> TasklistClaimParams {
    TasklistClaimParams { item_id: id.into(), ..Default::default() }
}

fn patch(id: &str, patch: ItemPatch) -> TasklistUpdateParams {
    TasklistUpdateParams { item_id: id.into(), patch, ..Default::default() }
}

fn to(status: ItemStatus) -> ItemPatch {
    ItemPatch { status: Some(status), ..ItemPatch::default() }
}

fn owner(name: &str) -> ItemPatch {
    ItemPatch { owner: Some(name.into()), ..ItemPatch::default() }
}

fn waits_for(ids: &[&str]) -> ItemPatch {
    ItemPatch { add_blocked_by: Some(ids.iter().map(|id| (*id).into()).collect()), ..ItemPatch::default() }
}

fn blocks(ids: &[&str]) -> ItemPatch {
    ItemPatch { add_blocks: Some(ids.iter().map(|id| (*id).into()).collect()), ..ItemPatch::default() }
}

fn get(desk: &mut Desk, item: &str) -> Item {
    desk.ok::<TasklistGet>(&lead(), id(item))
}

fn list(desk: &mut Desk, filter: ItemFilter) -> Vec<String> {
    let params = TasklistListParams { filter: Some(filter), ..TasklistListParams::default() };
    desk.ok::<TasklistList>(&lead(), params).items.into_iter().map(|item| item.id).collect()
}

fn next(desk: &mut Desk, caller: &Caller) -> Option<String> {
    desk.ok::<TasklistNext>(caller, TasklistNextParams::default()).item.map(|item| item.id)
}

fn change(desk: &mut Desk, caller: &Caller, item: &str, with: ItemPatch) -> Result<Item, Error> {
    let params = patch(item, with.clone());
    let answer = desk.call::<TasklistUpdate>(caller, params);
    if let Err(error) = &answer {
        desk.refused::<TasklistUpdate>(caller, patch(item, with), error.kind);
    }
    answer
}

/// TM-08: the list of a new team is there, and empty.
#[test]
fn a_new_team_has_an_empty_list() {
    let mut desk = red();
    assert_eq!(list(&mut desk, ItemFilter::default()), Vec::<String>::new());
    assert_eq!(next(&mut desk, &ann()), None);
}

/// TL-01, TL-02, TL-03: what a member puts on the list its lead sees, with all that it has; numbers begin at 1.
#[test]
fn a_member_adds_and_the_lead_sees() {
    let mut desk = red();
    let params = TasklistCreateParams {
        description: Some("all of it".into()),
        active_form: Some("Building".into()),
        metadata: Some([("k".to_owned(), json!([1]))].into_iter().collect()),
        ..entry(" build ", &[])
    };
    let made = desk.ok::<TasklistCreate>(&ann(), params);
    assert_eq!(get(&mut desk, "1"), made);
    assert_eq!((&*made.subject, &*made.list, made.status), ("build", "red", ItemStatus::Pending));
    assert_eq!((made.revision, made.owner.as_deref(), made.blocked_by.len()), (1, None, 0));
    assert_eq!(made.metadata.unwrap()["k"], json!([1]));
    assert_eq!(desk.ok::<TasklistCreate>(&lead(), entry("test", &["1"])).blocked_by, ["1"]);
    assert_eq!(get(&mut desk, "1").blocks, ["2"]);
    assert_eq!(list(&mut desk, ItemFilter::default()), ["1", "2"]);
}

/// TL-04, TL-05: a claim makes an item the claimer's; one that waits, or that another has, is refused by name.
#[test]
fn a_claim_needs_an_item_that_is_free() {
    let mut desk = red();
    items(&mut desk, &[&[], &["1"]]);
    let item = desk.ok::<TasklistClaim>(&ann(), claim("1"));
    assert_eq!((item.owner.as_deref(), item.status), (Some("ann"), ItemStatus::InProgress));
    assert_eq!(desk.events(), ["tasklist.claimed"]);
    assert_eq!(desk.refused::<TasklistClaim>(&bob(), claim("1"), Kind::ItemOwned).data["owner"], "ann");
    let blocked = desk.refused::<TasklistClaim>(&bob(), claim("2"), Kind::ItemBlocked);
    assert_eq!(blocked.data["blockedBy"], json!(["1"]));
    desk.refused::<TasklistClaim>(&bob(), claim("3"), Kind::NotFound);
}

/// I113, TL-10: a claim that is made again, since its answer was lost, has the one outcome, and writes nothing.
#[test]
fn a_claim_that_is_made_again_changes_nothing() {
    let mut desk = red();
    items(&mut desk, &[&[]]);
    let first = desk.ok::<TasklistClaim>(&ann(), claim("1"));
    let written = desk.writes.len();
    assert_eq!(desk.ok::<TasklistClaim>(&ann(), claim("1")), first);
    assert_eq!(desk.writes.len(), written);
}

/// TL-06: the lowest item that can be claimed comes first; what is assigned to whoever asks counts as free to it alone.
#[test]
fn the_lowest_that_is_free_is_next() {
    let mut desk = red();
    items(&mut desk, &[&[], &["1"], &[], &[]]);
    change(&mut desk, &lead(), "1", owner("bob")).unwrap();
    assert_eq!(next(&mut desk, &ann()).as_deref(), Some("3"));
    assert_eq!(next(&mut desk, &bob()).as_deref(), Some("1"));
    assert_eq!(next(&mut desk, &bob()).as_deref(), Some("4"));
    assert_eq!(next(&mut desk, &ann()), None);
    change(&mut desk, &bob(), "1", to(ItemStatus::Completed)).unwrap();
    assert_eq!(next(&mut desk, &ann()).as_deref(), Some("2"));
}

/// TL-07, A1: the lead assigns to a member, and to nobody who is none.
#[test]
fn the_lead_assigns_to_a_member() {
    let mut desk = red();
    items(&mut desk, &[&[]]);
    let item = change(&mut desk, &lead(), "1", owner("ann")).unwrap();
    assert_eq!((item.owner.as_deref(), item.status), (Some("ann"), ItemStatus::Pending));
    let error = change(&mut desk, &lead(), "1", owner("nan")).unwrap_err();
    assert_eq!((error.kind, &error.data["owners"]), (Kind::NoMember, &json!(["lead", "ann", "bob"])));
    let item = change(&mut desk, &lead(), "1", owner("")).unwrap();
    assert_eq!((item.owner, item.status), (None, ItemStatus::Pending));
}

/// I11, I113: what another has is another's to go on with; its lead and a person decide all the same.
#[test]
fn nobody_takes_what_another_has() {
    let mut desk = red();
    items(&mut desk, &[&[]]);
    desk.ok::<TasklistClaim>(&ann(), claim("1"));
    for with in [owner("bob"), to(ItemStatus::Completed), to(ItemStatus::Deleted), to(ItemStatus::Pending)] {
        assert_eq!(change(&mut desk, &bob(), "1", with).unwrap_err().kind, Kind::ItemOwned);
    }
    desk.refused::<TasklistDelete>(&bob(), id("1"), Kind::ItemOwned);
    let described = ItemPatch { description: Some("a hint".into()), ..ItemPatch::default() };
    change(&mut desk, &bob(), "1", described).unwrap();
    assert_eq!(change(&mut desk, &lead(), "1", owner("bob")).unwrap().owner.as_deref(), Some("bob"));
    let params = TasklistUpdateParams { list: Some("red".into()), ..patch("1", owner("ann")) };
    desk.ok::<TasklistUpdate>(&person(), params);
    assert_eq!(get(&mut desk, "1").owner.as_deref(), Some("ann"));
}

/// TL-08, TL-09: its owner completes an item, and what waited for it waits no more.
#[test]
fn a_completion_unblocks_what_waited() {
    let mut desk = red();
    items(&mut desk, &[&[], &[], &["1", "2"], &["1"]]);
    assert_eq!(get(&mut desk, "3").blocked_by, ["1", "2"]);
    desk.ok::<TasklistClaim>(&ann(), claim("1"));
    let item = change(&mut desk, &ann(), "1", to(ItemStatus::Completed)).unwrap();
    assert_eq!((item.owner.as_deref(), item.status), (Some("ann"), ItemStatus::Completed));
    let said = desk.effects.iter().find_map(|effect| match effect {
        Effect::Event(happened) if happened.r#type == "tasklist.completed" => Some(happened.clone()),
        _ => None,
    });
    let said = said.unwrap();
    assert_eq!((&said.data["unblocked"], &said.data["teamName"]), (&json!(["4"]), &json!("red")));
    assert!(desk.core.may_hear(&bob(), &said.about));
    assert_eq!((get(&mut desk, "3").blocked_by, get(&mut desk, "4").blocked_by.len()), (vec!["2".into()], 0));
    desk.ok::<TasklistDelete>(&lead(), id("2"));
    assert_eq!(get(&mut desk, "3").blocked_by.len(), 0);
    let free = ItemFilter { claimable: Some(true), ..ItemFilter::default() };
    assert_eq!(list(&mut desk, free), ["3", "4"]);
}

/// TL-05, H109, I112: what waits is neither begun nor completed; what is completed or deleted stays so, and is shown.
#[test]
fn an_item_goes_no_way_back() {
    let mut desk = red();
    items(&mut desk, &[&[], &["1"], &[]]);
    for status in [ItemStatus::InProgress, ItemStatus::Completed] {
        assert_eq!(change(&mut desk, &lead(), "2", to(status)).unwrap_err().kind, Kind::ItemBlocked);
    }
    change(&mut desk, &lead(), "1", to(ItemStatus::Completed)).unwrap();
    for status in [ItemStatus::Pending, ItemStatus::InProgress] {
        let error = change(&mut desk, &lead(), "1", to(status)).unwrap_err();
        assert_eq!((error.kind, &error.data["from"]), (Kind::BadTransition, &json!("completed")));
    }
    assert_eq!(change(&mut desk, &lead(), "1", owner("ann")).unwrap_err().kind, Kind::BadTransition);
    desk.refused::<TasklistClaim>(&ann(), claim("1"), Kind::BadTransition);
    let deleted = change(&mut desk, &lead(), "3", to(ItemStatus::Deleted)).unwrap();
    assert_eq!(desk.ok::<TasklistDelete>(&lead(), id("3")), Empty {});
    assert_eq!(get(&mut desk, "3"), deleted);
    for status in [ItemStatus::Pending, ItemStatus::InProgress, ItemStatus::Completed] {
        assert_eq!(change(&mut desk, &lead(), "3", to(status)).unwrap_err().kind, Kind::BadTransition);
    }
    desk.refused::<TasklistClaim>(&ann(), claim("3"), Kind::BadTransition);
    assert_eq!(list(&mut desk, ItemFilter::default()), ["1", "2"]);
    let only = ItemFilter { status: Some(ItemStatus::Deleted), ..ItemFilter::default() };
    assert_eq!(list(&mut desk, only), ["3"]);
    // Its number is not given again.
    assert_eq!(desk.ok::<TasklistCreate>(&lead(), entry("more", &[])).id, "4");
}

/// D53, TL-05: items that would wait for each other in a circle, or for themselves, are refused with the circle, from
/// either side and in one call.
#[test]
fn nothing_waits_in_a_circle() {
    let mut desk = red();
    items(&mut desk, &[&[], &["1"], &["2"], &[]]);
    let circle = |desk: &mut Desk, item: &str, with: ItemPatch| {
        let error = change(desk, &lead(), item, with).unwrap_err();
        assert_eq!(error.kind, Kind::DependencyCycle);
        error.data["cycle"]
            .as_array()
            .unwrap()
            .iter()
            .map(|id| id.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(circle(&mut desk, "1", waits_for(&["1"])), ["1", "1"]);
    assert_eq!(circle(&mut desk, "1", blocks(&["1"])), ["1", "1"]);
    assert_eq!(circle(&mut desk, "1", waits_for(&["3"])), ["1", "2", "3", "1"]);
    assert_eq!(circle(&mut desk, "3", blocks(&["1"])), ["3", "1", "2", "3"]);
    let both = ItemPatch { add_blocks: Some(vec!["1".into()]), ..waits_for(&["3"]) };
    assert_eq!(circle(&mut desk, "4", both), ["4", "1", "2", "3", "4"]);
    change(&mut desk, &lead(), "4", ItemPatch { add_blocks: Some(vec!["1".into()]), ..waits_for(&[]) })
        .unwrap();
    assert_eq!(get(&mut desk, "1").blocked_by, ["4"]);
    assert_eq!(circle(&mut desk, "4", waits_for(&["2"])), ["4", "1", "2", "4"]);
}

/// TL-03: dependencies are on items that there are; what is completed blocks nothing.
#[test]
fn dependencies_are_on_items_that_there_are() {
    let mut desk = red();
    items(&mut desk, &[&[], &[], &[]]);
    change(&mut desk, &lead(), "1", to(ItemStatus::Completed)).unwrap();
    assert_eq!(change(&mut desk, &lead(), "2", waits_for(&["1"])).unwrap().blocked_by.len(), 0);
    assert_eq!(change(&mut desk, &lead(), "2", blocks(&["1"])).unwrap_err().kind, Kind::BadTransition);
    assert_eq!(
        change(&mut desk, &lead(), "2", waits_for(&["9"])).unwrap_err().data["path"],
        "patch.addBlockedBy"
    );
    desk.ok::<TasklistDelete>(&lead(), id("3"));
    assert_eq!(change(&mut desk, &lead(), "2", blocks(&["3"])).unwrap_err().kind, Kind::BadTransition);
    let error = desk.refused::<TasklistCreate>(&lead(), entry("x", &["9"]), Kind::NotFound);
    assert_eq!(error.data["path"], "blockedBy");
}

/// I13: an update may say which revision it saw; what changed since is refused with the one that it has.
#[test]
fn a_stale_revision_changes_nothing() {
    let mut desk = red();
    items(&mut desk, &[&[]]);
    let seen = get(&mut desk, "1").revision;
    let again =
        change(&mut desk, &lead(), "1", ItemPatch { subject: Some("other".into()), ..ItemPatch::default() });
    assert_eq!(again.unwrap().revision, seen + 1);
    let with = |revision| TasklistUpdateParams {
        if_revision: Some(revision),
        ..patch("1", ItemPatch { subject: Some("third".into()), ..ItemPatch::default() })
    };
    let error = desk.refused::<TasklistUpdate>(&lead(), with(seen), Kind::RevisionConflict);
    assert_eq!(error.data["revision"], json!(seen + 1));
    assert_eq!(desk.ok::<TasklistUpdate>(&lead(), with(seen + 1)).revision, seen + 2);
    // What changes nothing is no change.
    let same = desk.ok::<TasklistUpdate>(&lead(), with(seen + 2));
    assert_eq!((same.revision, desk.effects.len()), (seen + 2, 0));
}

/// TL-03: metadata is merged by key, and null takes a key out; an empty text is none.
#[test]
fn metadata_is_merged_by_key() {
    let mut desk = red();
    items(&mut desk, &[&[]]);
    let mut set = |metadata: serde_json::Value| {
        let metadata = metadata.as_object().cloned();
        change(&mut desk, &ann(), "1", ItemPatch { metadata, ..ItemPatch::default() }).unwrap().metadata
    };
    assert_eq!(json!(set(json!({ "a": 1, "b": 2 }))), json!({ "a": 1, "b": 2 }));
    assert_eq!(json!(set(json!({ "a": null, "c": 3 }))), json!({ "b": 2, "c": 3 }));
    assert_eq!(set(json!({ "b": null, "c": null })), None);
    let large = json!({ "k": "x".repeat(9_000) }).as_object().cloned();
    change(&mut desk, &ann(), "1", ItemPatch { metadata: large, ..ItemPatch::default() }).unwrap();
    let more = json!({ "l": "x".repeat(9_000) }).as_object().cloned();
    let error =
        change(&mut desk, &ann(), "1", ItemPatch { metadata: more, ..ItemPatch::default() }).unwrap_err();
    assert_eq!((error.kind, &error.data["path"]), (Kind::InvalidParams, &json!("patch.metadata")));
}

/// I13, I114: what an owner that ended or left did not complete is open to all again, with the cause; so it is when
/// somebody else takes an absent owner's name.
#[test]
fn what_a_gone_owner_had_is_open_again() {
    let mut desk = red();
    items(&mut desk, &[&[], &[], &[], &[]]);
    let cid = desk.spawn(teammate("red", "cid"));
    let agent = crate::desk::agent(cid);
    desk.ok::<TasklistClaim>(&agent, claim("1"));
    change(&mut desk, &agent, "1", to(ItemStatus::Completed)).unwrap();
    desk.ok::<TasklistClaim>(&agent, claim("2"));
    change(&mut desk, &lead(), "3", owner("cid")).unwrap();
    desk.exited(cid, 1);
    let causes: Vec<_> = desk
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Event(happened) if happened.r#type == "tasklist.reopened" => {
                Some(happened.data["cause"].clone())
            }
            _ => None,
        })
        .collect();
    assert_eq!(causes, [json!("its owner ended"), json!("its owner ended")]);
    assert_eq!(get(&mut desk, "1").owner.as_deref(), Some("cid"));
    let free = || ItemFilter { claimable: Some(true), ..ItemFilter::default() };
    assert_eq!(list(&mut desk, free()), ["2", "3", "4"]);

    desk.ok::<TasklistClaim>(&ann(), claim("2"));
    desk.ok::<TeamLeave>(&ann(), Empty {});
    assert_eq!(list(&mut desk, free()), ["2", "3", "4"]);
    desk.ok::<TasklistClaim>(&bob(), claim("2"));
    desk.input(Input::Disconnected(12));
    assert_eq!(get(&mut desk, "2").owner.as_deref(), Some("bob"), "who is absent still has its items");
    let join = TeamJoinParams { team_name: "red".into(), name: "bob".into(), ..TeamJoinParams::default() };
    desk.ok::<TeamJoin>(&Caller::operator(30), join);
    assert_eq!(list(&mut desk, free()), ["2", "3", "4"]);
}

/// H101, I112: items, numbers and what waits for what are there after a restart.
#[test]
fn a_list_outlives_the_daemon() {
    let mut desk = red();
    items(&mut desk, &[&[], &[], &["1", "2"]]);
    desk.ok::<TasklistClaim>(&ann(), claim("1"));
    change(&mut desk, &lead(), "2", to(ItemStatus::Completed)).unwrap();
    desk.ok::<TasklistDelete>(&lead(), id("1"));
    desk.restart();
    let of_red = |item_id: &str| TasklistGetParams { list: Some("red".into()), item_id: item_id.into() };
    assert_eq!(desk.ok::<TasklistGet>(&person(), of_red("3")).blocked_by.len(), 0);
    assert_eq!(desk.ok::<TasklistGet>(&person(), of_red("2")).status, ItemStatus::Completed);
    let more = TasklistCreateParams { list: Some("red".into()), ..entry("more", &["3"]) };
    assert_eq!(desk.ok::<TasklistCreate>(&person(), more).id, "4");
}

/// TM-12, TM-13, A14: a list goes with its team, and the next team of that name begins anew; a session's goes with the
/// session, which no team can be called like.
#[test]
fn a_list_goes_with_what_it_belongs_to() {
    let mut desk = red();
    items(&mut desk, &[&[], &["1"]]);
    desk.ok::<TeamDelete>(&person(), TeamDeleteParams { name: "red".into(), force: Some(true) });
    let of = |list: &str| TasklistListParams { list: Some(list.into()), ..TasklistListParams::default() };
    let error = desk.refused::<TasklistList>(&person(), of("red"), Kind::NoTeam);
    assert_eq!(error.data["path"], "list");
    desk.ok::<TeamCreate>(&person(), TeamCreateParams { name: Some("red".into()), ..Default::default() });
    assert!(desk.ok::<TasklistList>(&person(), of("red")).items.is_empty());
    let first = TasklistCreateParams { list: Some("red".into()), ..entry("anew", &[]) };
    assert_eq!(desk.ok::<TasklistCreate>(&person(), first).id, "1");

    let session = desk.ok::<SessionOpen>(&person(), SessionOpenParams::default()).session_id;
    let caller = Caller { session: Some(session.clone()), ..person() };
    let made = desk.ok::<TasklistCreate>(&caller, entry("its own", &[]));
    assert_eq!((&*made.id, &*made.list), ("1", &*session.0));
    assert!(desk.ok::<TasklistList>(&person(), TasklistListParams::default()).items.is_empty());
    assert_eq!(desk.ok::<TasklistList>(&person(), of(&session.0)).items, [made]);
    desk.ok::<SessionClose>(&person(), SessionCloseParams { session_id: session.clone(), keep_teams: None });
    desk.refused::<TasklistList>(&person(), of(&session.0), Kind::NoTeam);
    let kinds = |kind: &str| desk.core.records().iter().filter(|record| record.kind() == kind).count();
    assert_eq!(kinds("item"), 1);
}

/// I8: a claim on a list of ten thousand writes one row, a completion two at most, and a page has its bound.
#[test]
fn a_long_list_costs_no_more_than_a_short_one() {
    let mut desk = red();
    for _ in 0..10_000 {
        desk.call_unchecked::<TasklistCreate>(&lead(), entry("a part", &[])).unwrap();
    }
    let (mut ids, mut cursor) = (Vec::new(), None);
    loop {
        let params = TasklistListParams { limit: Some(1000), cursor, ..TasklistListParams::default() };
        let page = desk.call_unchecked::<TasklistList>(&lead(), params).unwrap();
        assert!(page.items.len() <= 1000);
        ids.extend(page.items.into_iter().map(|item| item.id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert!(ids.iter().enumerate().all(|(n, id)| *id == (n + 1).to_string()) && ids.len() == 10_000);
    let written = desk.writes.len();
    assert_eq!(next(&mut desk, &ann()).as_deref(), Some("1"));
    assert!(matches!(&desk.writes[written..], [Write::Put(_)]));
    change(&mut desk, &ann(), "1", to(ItemStatus::Completed)).unwrap();
    assert_eq!(desk.writes.len(), written + 2);
}

/// I8: the bounds of a list are kept, and what was deleted makes room.
#[test]
fn a_list_is_bounded() {
    let mut desk = red();
    let large = || TasklistCreateParams { description: Some("x".repeat(64 << 10)), ..entry("a part", &[]) };
    let mut made = 0;
    let error = loop {
        match desk.call_unchecked::<TasklistCreate>(&lead(), large()) {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind, made), (Kind::Overloaded, 255));
    desk.refused::<TasklistCreate>(&lead(), large(), Kind::Overloaded);
    let page =
        desk.ok::<TasklistList>(&lead(), TasklistListParams { limit: Some(1000), ..Default::default() });
    assert!(page.items.len() < 100 && page.next_cursor.is_some(), "{} items", page.items.len());
    let more = ItemPatch { subject: Some("s".repeat(1000)), ..ItemPatch::default() };
    desk.ok::<TasklistDelete>(&lead(), id("7"));
    desk.ok::<TasklistCreate>(&lead(), large());
    change(&mut desk, &lead(), "8", ItemPatch { description: Some("less".into()), ..more }).unwrap();

    let mut desk = red();
    for _ in 0..20_000 {
        desk.call_unchecked::<TasklistCreate>(&lead(), entry("a part", &[])).unwrap();
    }
    let more = desk.call_unchecked::<TasklistCreate>(&lead(), entry("one more", &[])).unwrap_err();
    assert_eq!((more.kind, &more.data["limit"]), (Kind::Overloaded, &json!(20_000)));
    for item in ["5", "9"] {
        desk.call_unchecked::<TasklistDelete>(&lead(), id(item)).unwrap();
    }
    let more = desk.call_unchecked::<TasklistCreate>(&lead(), entry("one more", &[]));
    assert_eq!(more.unwrap().id, "20001");
    let gone = desk.call_unchecked::<TasklistGet>(&lead(), id("5")).unwrap_err();
    assert_eq!(gone.kind, Kind::NotFound);
    assert_eq!(get(&mut desk, "9").status, ItemStatus::Deleted);
}

/// SV-03, I8: texts that say nothing, are more than a line, or are too long, and ids that are none, are refused by
/// their places.
#[test]
fn what_is_wrong_with_an_item_is_named() {
    let mut desk = red();
    items(&mut desk, &[&[]]);
    let many: Vec<&str> = vec!["1"; 101];
    let large = [("k".to_owned(), json!("x".repeat(17_000)))].into_iter().collect();
    let rows = [
        ("subject", entry(" ", &[])),
        ("subject", entry("two\nlines", &[])),
        ("subject", entry("\u{1b}[2J", &[])),
        ("subject", entry(&"x".repeat(1025), &[])),
        ("subject", entry("a\0b", &[])),
        (
            "description",
            TasklistCreateParams { description: Some("x".repeat((64 << 10) + 1)), ..entry("a", &[]) },
        ),
        ("activeForm", TasklistCreateParams { active_form: Some("a\tb".into()), ..entry("a", &[]) }),
        ("metadata", TasklistCreateParams { metadata: Some(large), ..entry("a", &[]) }),
        ("blockedBy", entry("a", &many)),
        ("blockedBy", entry("a", &["x"])),
    ];
    for (path, params) in rows {
        let error = desk.refused::<TasklistCreate>(&lead(), params, Kind::InvalidParams);
        assert_eq!(error.data["path"], path, "{error}");
    }
    for bad in ["", "0", "01", "+1", "-1", "1.0", "one", "#1", "99999999999999999999999"] {
        let error = desk.refused::<TasklistGet>(&lead(), id(bad), Kind::InvalidParams);
        assert_eq!(error.data["path"], "itemId", "{bad}: {error}");
    }
    for bad in ["a b", "a\nb", &"x".repeat(65)] {
        let params = TasklistClaimParams { owner: Some(bad.into()), ..claim("1") };
        desk.refused::<TasklistClaim>(&lead(), params, Kind::InvalidParams);
    }
}

/// I8: an item waits for a bounded number of others, whichever side says so.
#[test]
fn an_item_waits_for_a_bounded_number() {
    let mut desk = red();
    for _ in 0..102 {
        desk.ok::<TasklistCreate>(&lead(), entry("a part", &[]));
    }
    let ids: Vec<String> = (2..=101).map(|n| n.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    change(&mut desk, &lead(), "1", waits_for(&ids)).unwrap();
    for (item, with, path) in
        [("1", waits_for(&["102"]), "patch.addBlockedBy"), ("102", blocks(&["1"]), "patch.addBlocks")]
    {
        let error = change(&mut desk, &lead(), item, with).unwrap_err();
        assert_eq!((error.kind, &error.data["path"]), (Kind::InvalidParams, &json!(path)));
    }
    change(&mut desk, &lead(), "2", to(ItemStatus::Completed)).unwrap();
    change(&mut desk, &lead(), "1", waits_for(&["102"])).unwrap();
}

/// TL-04, TL-05: nobody makes another's item wait, neither from its side nor from that of what it would wait for; its owner
/// and who leads do.
#[test]
fn nobody_else_makes_an_owned_item_wait() {
    let mut desk = red();
    items(&mut desk, &[&[], &[], &[]]);
    desk.ok::<TasklistClaim>(&bob(), claim("1"));
    for (item, with) in [("1", waits_for(&["2"])), ("2", blocks(&["1"]))] {
        assert_eq!(change(&mut desk, &ann(), item, with).unwrap_err().kind, Kind::ItemOwned);
    }
    assert_eq!(get(&mut desk, "1").blocked_by, Vec::<String>::new());
    assert_eq!(change(&mut desk, &bob(), "1", waits_for(&["2"])).unwrap().blocked_by, ["2"]);
    change(&mut desk, &lead(), "3", blocks(&["1"])).unwrap();
    assert_eq!(get(&mut desk, "1").blocked_by, ["2", "3"]);
}

/// TL-01, I112: a key means the item that it made: where that went with its team, it does not answer with the one that
/// has its number in a team of the same name.
#[test]
fn a_key_does_not_answer_with_an_item_of_a_later_team() {
    let mut desk = Desk::new();
    let make = TeamCreateParams { name: Some("red".into()), ..Default::default() };
    let keyed = TasklistCreateParams {
        list: Some("red".into()),
        idempotency_key: Some("k".into()),
        ..entry("mine", &[])
    };
    desk.ok::<TeamCreate>(&person(), make.clone());
    let made = desk.ok::<TasklistCreate>(&person(), keyed.clone());
    assert_eq!(desk.ok::<TasklistCreate>(&person(), keyed.clone()), made);
    desk.ok::<TeamDelete>(&person(), TeamDeleteParams { name: "red".into(), ..Default::default() });
    desk.now += 1;
    desk.ok::<TeamCreate>(&person(), make);
    let other = TasklistCreateParams { list: Some("red".into()), ..entry("another's", &[]) };
    assert_eq!(desk.ok::<TasklistCreate>(&person(), other).id, made.id);
    let again = desk.call::<TasklistCreate>(&person(), keyed);
    assert_eq!(again.unwrap_err().kind, Kind::NotFound);
}
