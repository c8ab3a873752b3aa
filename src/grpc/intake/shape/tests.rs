use std::collections::HashMap;

use lease_broker_proto as proto;
use proptest::prelude::*;
use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FileDescriptorSet};
use tonic_types::StatusExt as _;

use super::*;
use crate::security::Rpc;

fn check_call(rpc: Rpc, message: &[u8]) -> Result<usize, Status> {
    check(message_of(rpc), message)
}

/// Compares a schema with the descriptor of its message, and then those of its parts.
fn compare(schema: &Schema, name: &str, types: &HashMap<String, DescriptorProto>) {
    let descriptor = &types[name];
    assert_eq!(schema.fields.len(), descriptor.field.len(), "{name}");
    for field in &descriptor.field {
        let number = u32::try_from(field.number()).expect("a field number");
        let path = format!("{name}.{}", field.name());
        let known = schema.field(number).unwrap_or_else(|| panic!("{path}"));
        let repeated = field.label() == Label::Repeated;
        match (&known.kind, field.r#type(), repeated) {
            (Kind::Number, Type::Bool | Type::Int32 | Type::Int64 | Type::Enum, false)
            | (Kind::Double, Type::Double, false)
            | (Kind::Name | Kind::Text, Type::String, false)
            | (Kind::Bytes, Type::Bytes, false)
            | (Kind::Names(_) | Kind::Texts(_), Type::String, true) => {}
            (Kind::Message(inner), Type::Message, false)
            | (Kind::List(_, inner) | Kind::Map(inner), Type::Message, true) => {
                compare(inner, field.type_name(), types);
            }
            _ => panic!("{path} has another type"),
        }
    }
}

#[test]
fn schemas_equal_the_descriptors() {
    let files = FileDescriptorSet::decode(lease_broker_proto::DESCRIPTORS).expect("descriptors");
    let mut types = HashMap::new();
    for file in &files.file {
        for message in &file.message_type {
            let name = format!(".{}.{}", file.package(), message.name());
            for entry in &message.nested_type {
                types.insert(format!("{name}.{}", entry.name()), entry.clone());
            }
            types.insert(name, message.clone());
        }
    }
    let services = files.file.iter().flat_map(|file| &file.service);
    let methods: Vec<_> = services.flat_map(|service| &service.method).collect();
    assert_eq!(methods.len(), Rpc::ALL.len());
    for method in methods {
        let mut rpcs = Rpc::ALL.into_iter();
        let rpc = rpcs.find(|rpc| rpc.name() == method.name());
        compare(
            message_of(rpc.expect("an rpc")),
            method.input_type(),
            &types,
        );
    }
}

fn repeated(entry: &[u8], count: usize) -> Vec<u8> {
    entry.repeat(count)
}

#[test]
fn follow_ups_of_all_completions_are_counted() {
    let follow_ups = |count| proto::Completion {
        follow_ups: vec![proto::FollowUp::default(); count],
        ..proto::Completion::default()
    };
    let request = |last| proto::CompleteRequest {
        completions: vec![follow_ups(500), follow_ups(last)],
        ..proto::CompleteRequest::default()
    };
    assert!(check_call(Rpc::Complete, &request(500).encode_to_vec()).is_ok());
    assert!(check_call(Rpc::Complete, &request(501).encode_to_vec()).is_err());
}

#[test]
fn columns_are_counted_for_each_item_and_for_all() {
    let columns = repeated(&[0x0a, 0], 1_024);
    let item = |columns: &[u8]| {
        let mut item = vec![0x12];
        prost::encoding::encode_varint(columns.len() as u64, &mut item);
        item.extend(columns);
        item
    };
    assert!(check_call(Rpc::Enqueue, &repeated(&item(&columns), 64)).is_ok());
    let status = check_call(Rpc::Enqueue, &repeated(&item(&columns), 65)).expect_err("too many");
    let info = status.get_details_error_info().expect("the reason");
    assert_eq!(info.metadata["max"], "65536");
    assert!(check_call(Rpc::Enqueue, &item(&repeated(&[0x0a, 0], 1_025))).is_err());
}

#[test]
fn long_names_are_refused() {
    let wake = |length| proto::WakeRequest {
        queue: "q".repeat(length),
    };
    assert!(check_call(Rpc::Wake, &wake(512).encode_to_vec()).is_ok());
    let status = check_call(Rpc::Wake, &wake(513).encode_to_vec()).expect_err("too long");
    assert!(status.message().contains("queue"), "{status:?}");
}

#[test]
fn long_names_in_a_list_are_refused() {
    let list = |length| proto::ListQueuesRequest {
        queues: vec!["q".to_owned(), "q".repeat(length)],
        exact: false,
    };
    assert!(check_call(Rpc::ListQueues, &list(512).encode_to_vec()).is_ok());
    let status = check_call(Rpc::ListQueues, &list(513).encode_to_vec()).expect_err("too long");
    assert!(status.message().contains("queues"), "{status:?}");
}

#[test]
fn groups_and_many_unknown_fields_are_refused() {
    assert!(check_call(Rpc::Wake, &[0x53, 0x54]).is_err());
    let unknown = [0x50, 1];
    assert!(check_call(Rpc::Wake, &repeated(&unknown, 1_024)).is_ok());
    assert!(check_call(Rpc::Wake, &repeated(&unknown, 1_025)).is_err());
}

/// Returns the bytes of texts, lists and maps of a decoded Enqueue request.
fn allocated(request: &proto::EnqueueRequest) -> usize {
    let value = |value: &proto::ColumnValue| match &value.kind {
        Some(proto::column_value::Kind::StringValue(text)) => text.capacity(),
        Some(proto::column_value::Kind::BytesValue(bytes)) => bytes.capacity(),
        _ => 0,
    };
    let items = request.items.iter().map(|item| {
        let entries = item.columns.iter();
        let texts: usize = entries.map(|(name, v)| name.capacity() + value(v)).sum();
        texts + item.columns.len() * size_of::<(String, proto::ColumnValue)>()
    });
    request.queue.capacity()
        + request.items.capacity() * size_of::<proto::NewItem>()
        + items.sum::<usize>()
}

fn any_value() -> impl Strategy<Value = proto::ColumnValue> {
    use proto::column_value::Kind as V;
    let kind = prop_oneof![
        any::<bool>().prop_map(V::BoolValue),
        any::<i64>().prop_map(V::Int64Value),
        any::<f64>().prop_map(V::DoubleValue),
        ".{0,20}".prop_map(V::StringValue),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(V::BytesValue),
    ];
    kind.prop_map(|kind| proto::ColumnValue { kind: Some(kind) })
}

fn any_enqueue() -> impl Strategy<Value = proto::EnqueueRequest> {
    let columns = prop::collection::hash_map(".{0,8}", any_value(), 0..6);
    let item = (columns, any::<Option<i64>>()).prop_map(|(columns, seconds)| proto::NewItem {
        columns: columns.into_iter().collect(),
        delay: seconds.map(|seconds| prost_types::Duration { seconds, nanos: 0 }),
        trace_parent: String::new(),
    });
    (".{0,9}", prop::collection::vec(item, 0..20)).prop_map(|(queue, items)| {
        proto::EnqueueRequest {
            queue,
            items,
            request_id: String::new(),
        }
    })
}

proptest! {
    #[test]
    fn accepted_bytes_can_be_decoded(
        rpc in prop::sample::select(Rpc::ALL.to_vec()),
        message in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        if check_call(rpc, &message).is_ok() {
            prop_assert!(decodes(rpc, &message));
        }
    }

    #[test]
    fn damaged_requests_that_are_accepted_can_be_decoded(
        request in any_enqueue(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut message = request.encode_to_vec();
        for (place, byte) in damage {
            if !message.is_empty() {
                let place = place.index(message.len());
                message[place] = byte;
            }
        }
        if check_call(Rpc::Enqueue, &message).is_ok() {
            prop_assert!(decodes(Rpc::Enqueue, &message));
        }
    }

    #[test]
    fn requests_are_accepted_and_their_memory_is_bounded(request in any_enqueue()) {
        let message = request.encode_to_vec();
        let bound = check_call(Rpc::Enqueue, &message).expect("accepted");
        let decoded = proto::EnqueueRequest::decode(&*message).expect("decoded");
        prop_assert!(allocated(&decoded) <= bound, "{} > {bound}", allocated(&decoded));
    }
}

#[test]
fn field_that_is_repeated_a_million_times_is_refused() {
    // Field 3 of a Heartbeat, an empty duration, and field 1, an empty name.
    for field in [[0x1a, 0], [0x0a, 0]] {
        let few = field.repeat(1_025);
        assert!(check_call(Rpc::Heartbeat, &few).is_ok());
        let many = field.repeat(1_000_000);
        let refused = check_call(Rpc::Heartbeat, &many).expect_err("too many");
        assert!(refused.message().contains("repetitions"), "{refused:?}");
    }
}
