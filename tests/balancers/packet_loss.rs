//! A network that loses packets: a run of `chaos` in a network namespace of its own, whose loopback drops some of them.

use std::process::Command;

use crate::balancers::balancer::Kind;
use crate::support::skipped::skipped;

/// The run. It is also a test of its own, without the loss.
const RUN: &str = "chaos::sqlite_loses_and_repeats_nothing_under_faults";
/// Makes the network, and runs the command in its arguments there. Prints how many packets were dropped. Exit code 77: this
/// machine does not let the test make such a network.
const SCRIPT: &str = r#"
{ ip link set lo up && nft -f - <<'RULES'
table ip loss {
  chain input {
    type filter hook input priority 0;
    numgen random mod 100 < 2 counter drop
  }
}
RULES
} || exit 77
"$@"
code=$?
nft list chain ip loss input
exit $code
"#;

#[test]
fn lost_packets_lose_and_repeat_nothing() {
    if !Kind::Haproxy.is_installed() {
        return;
    }
    let program = std::env::current_exe().expect("the program of the tests");
    let mut command = Command::new("unshare");
    command.args(["--net", "--map-root-user", "sh", "-c", SCRIPT, "sh"]);
    command.arg(program).args(["--exact", RUN, "--nocapture"]);
    let output = match command.output() {
        Err(error) => return skipped(&format!("unshare cannot be run: {error}")),
        Ok(output) => output,
    };
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    if text.contains("unshare: ") || output.status.code() == Some(77) {
        return skipped(&format!("no network with loss: {}", text.trim()));
    }
    eprintln!("{text}");
    assert!(output.status.success());
    assert!(text.contains("test result: ok. 1 passed"), "one test ran");
    let dropped = text.split("counter packets ").nth(1);
    let dropped = dropped.and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    assert!(dropped.is_some_and(|packets| packets > 0), "{dropped:?}");
}
