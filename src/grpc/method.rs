//! The rpcs of the API in the paths of requests.

use lease_broker_proto::{admin_service_server, lease_service_server};

use crate::security::{Rpc, RpcService};

/// Returns the rpc of a path, such as `/leasebroker.v1.LeaseService/Heartbeat`. `None`: the API has no such rpc.
pub(super) fn rpc_of(path: &str) -> Option<Rpc> {
    let (service, name) = path.strip_prefix('/')?.split_once('/')?;
    let mut rpcs = Rpc::ALL.into_iter();
    rpcs.find(|rpc| rpc.name() == name && service_name(*rpc) == service)
}

/// Returns the full name of an rpc, such as `leasebroker.v1.LeaseService/Heartbeat`.
pub(super) fn full_name(rpc: Rpc) -> String {
    format!("{}/{}", service_name(rpc), rpc.name())
}

fn service_name(rpc: Rpc) -> &'static str {
    match rpc.service() {
        RpcService::Leases => lease_service_server::SERVICE_NAME,
        RpcService::Admin => admin_service_server::SERVICE_NAME,
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use prost_types::{FileDescriptorSet, MethodDescriptorProto};

    use super::*;

    #[test]
    fn rpcs_are_those_of_the_proto_files() {
        let files =
            FileDescriptorSet::decode(lease_broker_proto::DESCRIPTORS).expect("descriptors");
        let mut paths = Vec::new();
        for file in &files.file {
            for service in &file.service {
                let names = service.method.iter().map(MethodDescriptorProto::name);
                let path = |name| format!("{}.{}/{name}", file.package(), service.name());
                paths.extend(names.map(path));
            }
        }
        let mut names = Rpc::ALL.map(full_name).to_vec();
        paths.sort_unstable();
        names.sort_unstable();
        assert_eq!(names, paths);
    }

    #[test]
    fn only_paths_of_the_api_have_an_rpc() {
        for rpc in Rpc::ALL {
            assert_eq!(rpc_of(&format!("/{}", full_name(rpc))), Some(rpc));
        }
        for path in [
            "/grpc.health.v1.Health/Wake",
            "/leasebroker.v1.LeaseService/CancelLeases",
            "/leasebroker.v1.LeaseBrokerService/Wake",
            "leasebroker.v1.LeaseService/Wake",
            "/leasebroker.v1.LeaseService",
        ] {
            assert_eq!(rpc_of(path), None, "{path}");
        }
    }
}
