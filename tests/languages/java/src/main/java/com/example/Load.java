package com.example;

import com.example.leasebroker.v1.*;
import com.google.gson.Gson;
import com.google.protobuf.Duration;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** Load on a queue, as `Load` in `tests/balancers/load.rs` describes it. Arguments: address, service config. */
public final class Load {
    private static final String QUEUE = "work";
    /** Tries of an Enqueue, which together take longer than the restart of a broker. */
    private static final int TRIES = 100;

    private final LeaseServiceGrpc.LeaseServiceBlockingStub client;
    private final boolean hasPolicy;
    private volatile boolean stopped;
    private int calls;
    private final List<List<Object>> failures = new ArrayList<>();
    private final List<String> added = new ArrayList<>();
    private final List<String> completed = new ArrayList<>();

    private Load(LeaseServiceGrpc.LeaseServiceBlockingStub client, boolean hasPolicy) {
        this.client = client;
        this.hasPolicy = hasPolicy;
    }

    private synchronized void ended(String method, Status failure) {
        calls++;
        if (calls == 1) {
            System.out.println("begun");
        }
        if (failure != null) {
            var description = failure.getDescription();
            failures.add(List.of(method, failure.getCode().value(), description == null ? "" : description));
        }
    }

    /** Returns null if the call has failed. */
    private <T, R> R call(
            String method, BiFunction<LeaseServiceGrpc.LeaseServiceBlockingStub, T, R> send, T request) {
        for (int left = TRIES - 1; ; left--) {
            try {
                var response = send.apply(client.withDeadlineAfter(30, TimeUnit.SECONDS), request);
                ended(method, null);
                return response;
            } catch (StatusRuntimeException error) {
                sleep(50);
                var status = error.getStatus();
                if (left > 0 && hasPolicy && method.equals("Enqueue") && status.getCode() == Status.Code.UNAVAILABLE) {
                    continue;
                }
                ended(method, status);
                return null;
            }
        }
    }

    private static void sleep(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private String requestId() {
        return hasPolicy ? UUID.randomUUID().toString() : "";
    }

    private void produce() {
        while (!stopped) {
            var payloads = Stream.generate(() -> UUID.randomUUID().toString()).limit(5).toList();
            var request = EnqueueRequest.newBuilder().setQueue(QUEUE).setRequestId(UUID.randomUUID().toString());
            for (var payload : payloads) {
                var value = ColumnValue.newBuilder().setStringValue(payload).build();
                request.addItems(NewItem.newBuilder().putColumns("payload", value));
            }
            if (call("Enqueue", LeaseServiceGrpc.LeaseServiceBlockingStub::enqueue, request.build()) != null) {
                synchronized (this) {
                    added.addAll(payloads);
                }
            }
            sleep(100);
        }
    }

    private void work(String name) {
        while (!stopped) {
            var claim = ClaimBatchRequest.newBuilder()
                    .setQueue(QUEUE).setWorkerId(name).setMaxItems(5)
                    .setRequestId(requestId()).setWaitTimeout(Duration.newBuilder().setSeconds(1)).build();
            var claimed = call("ClaimBatch", LeaseServiceGrpc.LeaseServiceBlockingStub::claimBatch, claim);
            if (claimed == null || claimed.getLeasesCount() == 0) {
                continue;
            }
            var complete = CompleteRequest.newBuilder().setQueue(QUEUE);
            for (var lease : claimed.getLeasesList()) {
                complete.addCompletions(Completion.newBuilder().setLeaseId(lease.getLeaseId()));
            }
            var settled = call("Complete", LeaseServiceGrpc.LeaseServiceBlockingStub::complete, complete.build());
            if (settled == null) {
                continue;
            }
            synchronized (this) {
                for (int i = 0; i < claimed.getLeasesCount(); i++) {
                    if (settled.getResults(i).getOutcome() == Outcome.OUTCOME_APPLIED) {
                        completed.add(claimed.getLeases(i).getItem().getKey());
                    }
                }
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        var hasPolicy = !arguments[1].isEmpty();
        var builder = Grpc.newChannelBuilder(arguments[0], InsecureChannelCredentials.create());
        if (hasPolicy) {
            @SuppressWarnings("unchecked")
            Map<String, ?> config = new Gson().fromJson(arguments[1], Map.class);
            builder.defaultServiceConfig(config);
        } else {
            builder.disableRetry();
        }
        var channel = builder.build();
        var load = new Load(LeaseServiceGrpc.newBlockingStub(channel), hasPolicy);
        var threads = new ArrayList<Thread>();
        threads.add(new Thread(load::produce));
        IntStream.range(0, 4).forEach(n -> threads.add(new Thread(() -> load.work("worker-" + n))));
        threads.forEach(Thread::start);
        System.in.readAllBytes();
        load.stopped = true;
        for (var thread : threads) {
            thread.join();
        }
        var seen = Map.of(
                "calls", load.calls, "failures", load.failures, "added", load.added, "completed", load.completed);
        System.out.println(new Gson().toJson(seen));
        channel.shutdownNow();
    }
}
