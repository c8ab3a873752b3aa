//! Brokers behind a real load balancer, with the configuration files that `deploy` has for it.

#[allow(dead_code, reason = "another target uses the rest")]
pub(crate) mod balancer;
pub(crate) mod fleet;
mod load;
mod outages;
mod packet_loss;
mod rolling_restarts;
