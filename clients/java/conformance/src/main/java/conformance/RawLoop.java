package conformance;

import com.example.leasebroker.v1.ClaimBatchRequest;
import com.example.leasebroker.v1.CompleteRequest;
import com.example.leasebroker.v1.CompleteResponse;
import com.example.leasebroker.v1.Completion;
import com.example.leasebroker.v1.Lease;
import com.example.leasebroker.v1.LeaseServiceGrpc;
import com.example.leasebroker.v1.NextClaim;
import com.google.gson.JsonObject;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import java.util.List;

/**
 * Completes items by the generated stubs alone: claims n items, and completes n with the next n. It is the measure for the
 * throughput of the library.
 */
final class RawLoop {
  private RawLoop() {}

  static void run(JsonObject options, String address, Journal journal) {
    ManagedChannel channel = Grpc.newChannelBuilder(address, InsecureChannelCredentials.create()).build();
    var stub = LeaseServiceGrpc.newBlockingStub(channel);
    String queue = Main.text(options, "queue");
    int count = (int) Main.number(options, "concurrency", 1);
    Speed speed = new Speed(journal, options);
    journal.write("ready", line -> {});
    speed.begin();
    List<Lease> leases = List.of();
    boolean ended = false;
    while (!ended) {
      if (leases.isEmpty()) {
        leases = stub.claimBatch(ClaimBatchRequest.newBuilder().setQueue(queue).setWorkerId("raw").setMaxItems(count).build()).getLeasesList();
        continue;
      }
      CompleteRequest.Builder request =
          CompleteRequest.newBuilder().setQueue(queue).setNext(NextClaim.newBuilder().setWorkerId("raw").setMaxItems(count));
      leases.forEach(lease -> request.addCompletions(Completion.newBuilder().setLeaseId(lease.getLeaseId())));
      CompleteResponse response = stub.complete(request.build());
      ended = speed.add(leases.size());
      leases = response.getNext().getLeasesList();
    }
    channel.shutdownNow();
  }
}
