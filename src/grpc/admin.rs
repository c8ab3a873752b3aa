//! `AdminService` without its transport. The gRPC service calls it, and so do commands that open the database themselves.

mod api;
mod audit;
mod groups;
mod limits;
mod messages;
mod settings;

pub use self::api::AdminApi;
pub use self::settings::queue_settings;
