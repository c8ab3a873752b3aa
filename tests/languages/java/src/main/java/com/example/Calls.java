package com.example;

import com.example.leasebroker.v1.*;
import com.google.protobuf.NullValue;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import java.util.List;

/**
 * Makes every call of the API once, with the client that protoc and protoc-gen-grpc-java generate. Argument: the address
 * of the service.
 */
public final class Calls {
    private static final String QUEUE = "work";
    private static final List<String> PAYLOADS = List.of("complete", "fail", "release");

    private static void check(boolean ok, Object response) {
        if (!ok) {
            throw new AssertionError(response);
        }
    }

    private static NewItem item(String payload) {
        return NewItem.newBuilder()
                .putColumns("payload", ColumnValue.newBuilder().setStringValue(payload).build())
                .putColumns("note", ColumnValue.newBuilder().setNullValue(NullValue.NULL_VALUE).build())
                .build();
    }

    public static void main(String[] arguments) {
        var channel = Grpc.newChannelBuilder(arguments[0], InsecureChannelCredentials.create()).build();
        var client = LeaseServiceGrpc.newBlockingStub(channel);

        var items = PAYLOADS.stream().map(Calls::item).toList();
        var added = client.enqueue(EnqueueRequest.newBuilder().setQueue(QUEUE).addAllItems(items).build());
        check(added.getResultsCount() == 3, added);

        var claimed = client.claimBatch(
                ClaimBatchRequest.newBuilder().setQueue(QUEUE).setWorkerId("java").setMaxItems(3).build());
        check(claimed.getLeasesCount() == 3, claimed);
        var heartbeat = HeartbeatRequest.newBuilder().setQueue(QUEUE);
        for (int i = 0; i < 3; i++) {
            var lease = claimed.getLeases(i);
            var columns = lease.getItem().getColumnsMap();
            check(columns.get("payload").getStringValue().equals(PAYLOADS.get(i)), lease);
            check(columns.get("note").getKindCase() == ColumnValue.KindCase.NULL_VALUE, lease);
            heartbeat.addRenewals(Renewal.newBuilder().setLeaseId(lease.getLeaseId()));
        }

        for (var result : client.heartbeat(heartbeat.build()).getResultsList()) {
            check(result.getOutcome() == Outcome.OUTCOME_APPLIED, result);
        }

        var completion = Completion.newBuilder()
                .setLeaseId(claimed.getLeases(0).getLeaseId())
                .putColumns("note", ColumnValue.newBuilder().setStringValue("written").build());
        var completed = client.complete(CompleteRequest.newBuilder().setQueue(QUEUE).addCompletions(completion).build());
        check(completed.getResults(0).getState() == ItemState.ITEM_STATE_COMPLETED, completed);
        var failure = Failure.newBuilder()
                .setLeaseId(claimed.getLeases(1).getLeaseId()).setErrorMessage("no").setDeadLetter(true);
        var failed = client.fail(FailRequest.newBuilder().setQueue(QUEUE).addFailures(failure).build());
        check(failed.getResults(0).getState() == ItemState.ITEM_STATE_DEAD, failed);
        var release = Release.newBuilder().setLeaseId(claimed.getLeases(2).getLeaseId());
        var released = client.release(ReleaseRequest.newBuilder().setQueue(QUEUE).addReleases(release).build());
        check(released.getResults(0).getState() == ItemState.ITEM_STATE_READY, released);
        channel.shutdownNow();
    }
}
