//! The methods of the API in the paths of requests.

use lease_broker_proto::lease_broker_service_server::SERVICE_NAME;

/// Returns the name of the method, such as `Heartbeat`. `None`: the path is of another service.
pub(super) fn method_of(path: &str) -> Option<&str> {
    let service_and_method = path.strip_prefix('/')?;
    let method = service_and_method.strip_prefix(SERVICE_NAME)?;
    method.strip_prefix('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_the_api_have_a_method() {
        let path = |service: &str| format!("/{service}/Wake");
        assert_eq!(method_of(&path(SERVICE_NAME)), Some("Wake"));
        assert_eq!(method_of(&path("grpc.health.v1.Health")), None);
        assert_eq!(method_of(&path(&format!("{SERVICE_NAME}2"))), None);
        assert_eq!(method_of(SERVICE_NAME), None);
    }
}
