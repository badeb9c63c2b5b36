//! Calls of which nothing comes. The clock is turned by the test.

use super::*;

const STALL: Duration = Duration::from_secs(100);

/// A tool that shows a sign of life so often, each after most of the time, and then answers or never does.
#[derive(Debug)]
struct Slow(Access);

impl Tool for Slow {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<EchoInput>("Slow", "Takes its time.")
    }

    fn access(&self, _: &Value) -> Access {
        self.0
    }

    fn summary(&self, _: &Value) -> String {
        String::new()
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        async move {
            let input = read::<EchoInput>(input).unwrap();
            for _ in 0..input.text.len() {
                tokio::time::sleep(STALL).await;
                context.beat.felt();
            }
            if input.fail {
                tokio::time::sleep(STALL * 3).await;
            }
            Outcome::ok("done")
        }
        .boxed()
    }
}

/// What a run with these calls came to, and what it was told of them.
async fn ran(access: Access, stall: Option<Duration>, calls: &[(&str, bool)]) -> (Ended, String) {
    let lab = Lab::new();
    lab.say("m1", "Do it.");
    let step =
        |(text, fail): &(&str, bool)| format!("- call: Slow\n  with: {{text: '{text}', fail: {fail}}}\n");
    let script: String = calls.iter().map(step).collect();
    let mut agent = lab.agent(&format!("{script}- say: '{{{{result}}}}'\n")).await;
    agent.toolbox = Toolbox::new(vec![Arc::new(Slow(access))]);
    agent.patience.stall = stall;
    let ended = agent.run().await;
    (ended, format!("{:?}", lab.messages().await))
}

/// M150: a call of which nothing comes is ended, and its agent goes on; twice in a row ends the run with the cause.
#[tokio::test(start_paused = true)]
async fn a_call_that_stalls_twice_in_a_row_ends_the_run() {
    for access in [Access::Reads, Access::Writes, Access::Runs, Access::Fetches] {
        let (ended, told) = ran(access, Some(STALL), &[("", true)]).await;
        assert_eq!((&ended.finish, ended.failed_calls), (&Finish::Completed, 1), "{access:?}");
        assert!(told.contains("look before you repeat it"), "{told}");
        let (ended, _) = ran(access, Some(STALL), &[("", true), ("", true), ("", false)]).await;
        let Finish::Failed(problem) = ended.finish else { panic!("{:?}", ended.finish) };
        assert_eq!(problem.kind, "stalled");
        assert!(problem.message.contains("a call of Slow for 100 s"), "{}", problem.message);
        let (ended, _) = ran(access, Some(STALL), &[("", true), ("", false), ("", true)]).await;
        assert_eq!(ended.finish, Finish::Completed, "not in a row");
    }
}

/// M150: a call that shows signs of life does not stall, nor does one that waits for somebody; nor any without a timer.
#[tokio::test(start_paused = true)]
async fn what_goes_on_or_waits_for_somebody_does_not_stall() {
    for (access, stall, call) in [
        (Access::Runs, Some(STALL), ("xxxxx", false)),
        (Access::Talks, Some(STALL), ("", true)),
        (Access::Steers, Some(STALL), ("", true)),
        (Access::Runs, None, ("", true)),
    ] {
        let (ended, _) = ran(access, stall, &[call]).await;
        assert_eq!((&ended.finish, ended.failed_calls), (&Finish::Completed, 0), "{access:?}");
    }
}
