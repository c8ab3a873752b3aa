//! Brokers behind a real load balancer, with the configuration files that `deploy` has for it.

mod support;

#[path = "balancers/balancer.rs"]
#[allow(dead_code, reason = "another target uses the rest")]
mod balancer;
#[path = "upgrades/earlier_program.rs"]
mod earlier_program;
#[path = "balancers/fleet.rs"]
mod fleet;
#[path = "balancers/load.rs"]
mod load;
#[path = "balancers/rolling_restarts.rs"]
mod rolling_restarts;
#[path = "support/skipped.rs"]
mod skipped;
#[path = "languages/tools.rs"]
mod tools;
