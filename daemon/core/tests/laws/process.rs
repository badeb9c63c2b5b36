//! The agents' processes: they outlive the daemon, and report what became of them.
//!
//! ```text
//! Launching → Alive → Dead          a crash of the daemon leaves Launching either Alive or never claimed
//! ```
//!
//! Agents inside the daemon go the same way, but with it: a crash leaves nothing of them, and nothing was done by one
//! whose beginning was not stored.

use std::collections::{BTreeMap, BTreeSet};

use ccagent_core::input::{Ended, Finished, Report, Run};
use ccagent_core::task::{Shim, Step};
use ccagent_core::{Core, RunnerEvent};
use ccagent_proto::runner::RunnerKind;
use ccagent_proto::task::{Exit, TaskError, WaitKind, WaitingOn};

use crate::random::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Launching,
    Alive,
    Dead,
}

#[derive(Clone, Debug)]
struct Process {
    phase: Phase,
    /// Whether this daemon told it to stop.
    told: bool,
    /// Whether it lives in the daemon.
    inside: bool,
}

impl Process {
    /// What an agent inside the daemon does next.
    fn advance_inside(&mut self, random: &Random) -> Report {
        let answered = Step::Answered { input: 7, output: 3, micro_usd: None, calls: 0 };
        match (self.phase, random.below(10)) {
            (Phase::Launching, 0) => {
                self.phase = Phase::Dead;
                let error = TaskError { kind: "startFailed".into(), cause: None, message: "no key".into() };
                Report::Finished(Box::new(Finished { error: Some(error), ..Finished::default() }))
            }
            (Phase::Launching, _) => {
                self.phase = Phase::Alive;
                Report::Began
            }
            (Phase::Alive, 0..=4) if !self.told => Report::Worked(answered),
            (Phase::Alive, 5) => Report::Told,
            (Phase::Alive | Phase::Dead, _) => {
                self.phase = Phase::Dead;
                let text = random.sometimes(80, "said".into());
                Report::Finished(Box::new(Finished { text, ..Finished::default() }))
            }
        }
    }
}

/// All processes there ever were.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processes {
    runs: BTreeMap<Run, Process>,
    /// Starts that a daemon may ask for, because it was told that nothing ever ran.
    again: BTreeSet<Run>,
    /// Reports on their way, in order within a run.
    pub(crate) reports: Vec<RunnerEvent>,
    /// Reports that were delivered: they may come again.
    delivered: Vec<RunnerEvent>,
}

fn event((task, attempt): Run, what: Report) -> RunnerEvent {
    RunnerEvent { task, attempt, what }
}

impl Processes {
    /// The daemon starts an attempt; the claim makes it happen once (I9).
    pub(crate) fn start(&mut self, run: Run, runner: RunnerKind) {
        let other = self.runs.iter().find(|((task, attempt), process)| {
            *task == run.0 && *attempt != run.1 && process.phase != Phase::Dead
        });
        assert!(other.is_none(), "{run:?} starts beside {other:?}");
        if self.runs.contains_key(&run) {
            assert!(self.again.remove(&run), "{run:?} is started twice");
            return;
        }
        self.again.remove(&run);
        let inside = runner == RunnerKind::Llm;
        self.runs.insert(run, Process { phase: Phase::Launching, told: false, inside });
    }

    /// The daemon ends an attempt.
    pub(crate) fn stop(&mut self, run: Run) {
        if let Some(process) = self.runs.get_mut(&run) {
            process.told = true;
        }
    }

    /// Something happens to one of them.
    pub(crate) fn step(&mut self, random: &Random) {
        let moving: Vec<Run> = self
            .runs
            .iter()
            .filter(|(_, process)| process.phase != Phase::Dead)
            .map(|(run, _)| *run)
            .collect();
        if let Some(run) = random.pick(&moving) {
            self.advance(*run, random);
        }
    }

    fn advance(&mut self, run: Run, random: &Random) {
        let Some(process) = self.runs.get_mut(&run) else { return };
        if process.inside {
            let what = process.advance_inside(random);
            self.reports.push(event(run, what));
            return;
        }
        let what = match (process.phase, random.below(10)) {
            (Phase::Launching, 0) => {
                process.phase = Phase::Dead;
                let cause = random.one(&["notFound", "notExecutable", "cwdMissing"]).to_owned();
                Report::StartFailed { cause, message: "it could not be executed".to_owned() }
            }
            (Phase::Launching, _) => {
                process.phase = Phase::Alive;
                Report::Started { pid: 100, shim: Shim::default() }
            }
            (Phase::Alive, 0..=2) => {
                Report::Output { bytes: random.next() % 10_000, truncated: random.percent(5) }
            }
            (Phase::Alive, 3) => Report::LeaderEnded { exit: Exit::default(), remaining: 1 },
            (Phase::Alive, 4) if random.percent(20) => {
                process.phase = Phase::Dead;
                Report::ShimLost { message: "the shim is gone".to_owned() }
            }
            (Phase::Alive, 5) => {
                let on = WaitingOn { kind: WaitKind::Children, id: None, until_at: None };
                Report::Waits(random.sometimes(60, on))
            }
            (Phase::Alive, _) => {
                process.phase = Phase::Dead;
                Report::Ended(end_of(process.told, random))
            }
            (Phase::Dead, _) => return,
        };
        self.reports.push(event(run, what));
    }

    /// The next report: mostly in its order, sometimes one that came before, sometimes one of another attempt.
    pub(crate) fn report(&mut self, random: &Random) -> Option<RunnerEvent> {
        if random.percent(10) && !self.delivered.is_empty() {
            let mut old = random.pick(&self.delivered)?.clone();
            if random.percent(30) {
                old.attempt = old.attempt.wrapping_sub(1);
            }
            self.may_start_again(&old);
            return Some(old);
        }
        let place = random.below(self.reports.len());
        let run = self.reports.get(place).map(|report| (report.task, report.attempt))?;
        let first = self.reports.iter().position(|report| (report.task, report.attempt) == run)?;
        let report = self.reports.remove(first);
        self.may_start_again(&report);
        self.delivered.push(report.clone());
        if self.delivered.len() > 50 {
            self.delivered.remove(0);
        }
        Some(report)
    }

    fn may_start_again(&mut self, report: &RunnerEvent) {
        if report.what == Report::NeverStarted {
            self.again.insert((report.task, report.attempt));
        }
    }

    /// The daemon went away, and the machine perhaps with it; a new daemon looks for its agents.
    pub(crate) fn crash(&mut self, machine: bool, random: &Random) {
        self.reports.clear();
        self.delivered.clear();
        self.again.clear();
        self.runs.retain(|_, process| !process.inside);
        let launching: Vec<Run> = self
            .runs
            .iter()
            .filter(|(_, process)| process.phase == Phase::Launching)
            .map(|(run, _)| *run)
            .collect();
        for run in launching {
            if machine || random.percent(50) {
                self.runs.remove(&run);
            } else {
                self.set(run, Phase::Alive);
            }
        }
        for process in self.runs.values_mut() {
            process.told = false;
            let goes = process.phase == Phase::Alive && (machine || random.percent(30));
            if goes {
                process.phase = Phase::Dead;
            }
        }
    }

    /// What the runner of a new daemon reports of the attempts that the core asks about.
    pub(crate) fn adopt(&mut self, core: &Core, machine: bool, random: &Random) {
        let asked: BTreeSet<Run> =
            core.survivors().into_iter().map(|survivor| (survivor.task, survivor.attempt)).collect();
        for (run, process) in &self.runs {
            assert!(process.phase == Phase::Dead || asked.contains(run), "nobody looks for {run:?}");
        }
        for run in asked {
            let what = match self.runs.get(&run).map(|process| process.phase) {
                None => Report::NeverStarted,
                Some(Phase::Dead) if machine => Report::MachineRestarted,
                Some(Phase::Dead) => Report::Ended(end_of(false, random)),
                Some(Phase::Launching | Phase::Alive) => Report::Started { pid: 100, shim: Shim::default() },
            };
            self.reports.push(event(run, what));
        }
    }

    fn set(&mut self, run: Run, phase: Phase) {
        if let Some(process) = self.runs.get_mut(&run) {
            process.phase = phase;
        }
    }

    /// All attempts there ever were.
    pub(crate) fn runs(&self) -> Vec<Run> {
        self.runs.keys().copied().collect()
    }

    /// Attempts of which something runs.
    pub(crate) fn alive(&self) -> impl Iterator<Item = (Run, bool)> {
        self.runs
            .iter()
            .filter(|(_, process)| process.phase != Phase::Dead)
            .map(|(run, process)| (*run, process.told))
    }
}

fn end_of(told: bool, random: &Random) -> Ended {
    let exit = match (told, random.below(4)) {
        (true, _) => Exit { code: None, signal: Some(15) },
        (false, 0) => Exit { code: Some(1), signal: None },
        (false, 1) => Exit { code: None, signal: Some(9) },
        (false, _) => Exit { code: Some(0), signal: None },
    };
    Ended {
        exit,
        output_bytes: random.next() % 10_000,
        output_truncated: false,
        tail: random.sometimes(50, "the end of its output".into()),
        oom: random.percent(5),
        output_error: random.sometimes(5, "no space".into()),
    }
}
