package com.example.leasebroker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.example.leasebroker.v1.ClaimBatchResponse;
import com.example.leasebroker.v1.HeartbeatResponse;
import com.example.leasebroker.v1.HeartbeatResult;
import com.example.leasebroker.v1.Lease;
import com.example.leasebroker.v1.Outcome;
import com.example.leasebroker.v1.Refusal;
import com.example.leasebroker.v1.RefusalReason;
import com.example.leasebroker.v1.Renewal;
import com.example.leasebroker.v1.SettleResult;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.grpc.Status;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.parallel.Isolated;

/** The vectors of the state machine in `clients/vectors`, which all libraries share. */
@Isolated
class VectorsTest {
  private static final Set<Event.Name> LEFT_OUT =
      Set.of(Event.Name.RETRY, Event.Name.CONNECTED, Event.Name.DISCONNECTED, Event.Name.STOPPING, Event.Name.STOPPED);

  @AfterEach
  void restoreClock() {
    Clock.test = null;
  }

  @TestFactory
  Stream<DynamicTest> vectors() throws Exception {
    try (Reader file = Files.newBufferedReader(Path.of("../vectors/worker.json"))) {
      JsonArray cases = JsonParser.parseReader(file).getAsJsonObject().getAsJsonArray("cases");
      return objects(cases).map(each -> DynamicTest.dynamicTest(each.get("name").getAsString(), () -> run(each))).toList().stream();
    }
  }

  private static void run(JsonObject vector) {
    Machine machine = new Machine(vector.getAsJsonObject("options"));
    Clock.test = () -> machine.time;
    objects(vector.getAsJsonArray("steps"))
        .forEach(
            step -> {
              machine.step(step);
              assertEquals(texts(step, "actions").sorted().toList(), machine.actions.stream().sorted().toList(), step.toString());
              if (step.has("wakes_by_ms")) {
                assertTrue(machine.state.nextLook <= nanos(step, "wakes_by_ms"), step.toString());
              }
            });
  }

  /** A settlement that waits for its answer. */
  private static final class Waiting {
    final Settler.Call call;
    final String kind;
    final long sentAt;
    int attempts = 1;

    Waiting(Settler.Call call, long sentAt) {
      this.call = call;
      this.sentAt = sentAt;
      Ending first = call.group().get(0);
      kind = first.rpc().toLowerCase();
    }
  }

  /** A state machine with a clock that the test sets. */
  private static final class Machine {
    long time;
    final List<String> actions = new ArrayList<>();
    final State state;
    final Keeper keeper;
    final Settler settler;
    final List<Run> runs = new ArrayList<>();
    final Map<Run, String> names = new HashMap<>();
    final Set<Run> cancelled = new HashSet<>();
    final List<Keeper.Beat> beats = new ArrayList<>();
    final Map<Keeper.Beat, Long> beatSentAt = new HashMap<>();
    final List<Waiting> calls = new ArrayList<>();
    int claimedSlots;

    Machine(JsonObject options) {
      Queue queue = Queue.of("work", (item, context) -> null).concurrency(number(options, "slots", 1));
      if (options.has("batch")) {
        queue = Queue.ofBatches("work", number(options, "batch", 1), (items, context) -> null).concurrency(number(options, "slots", 1));
      }
      queue.heartbeat(!options.has("heartbeat") || options.get("heartbeat").getAsBoolean());
      queue.stuckAfter(Duration.ofMillis(number(options, "stuck_after_ms", 30_000)));
      if (options.has("time_limit_ms")) {
        queue.timeLimit(Duration.ofMillis(number(options, "time_limit_ms", 0)));
      }
      if (options.has("max_stuck")) {
        queue.maxStuck(number(options, "max_stuck", 1));
      }
      queue.onEvent(this::note);
      Options checked = Options.of(queue, "worker", System.getLogger("test"));
      state = new State(checked, new EventLog("work", checked.onEvent(), checked.logger()));
      state.start = started -> started.forEach(this::start);
      Caller caller = new Caller(null, null, failure -> {}, retry -> {}) {
        @Override
        void reconnect() {}
      };
      keeper = new Keeper(state, caller, Runnable::run, error -> {});
      settler = new Settler(state, caller, Runnable::run, error -> {});
    }

    private void note(Event event) {
      if (LEFT_OUT.contains(event.name())) {
        return;
      }
      String name = event.name().name().toLowerCase();
      if (name.equals("heartbeat")) {
        actions.add("report heartbeat " + event.count());
        return;
      }
      String text = name.equals("failed") ? event.error() : event.reason();
      String cause = event.cause() == null ? "" : " " + event.cause().name().toLowerCase();
      actions.add("report " + name + " " + event.item().key() + cause + (text == null ? "" : ": " + text));
    }

    private void start(Run run) {
      state.begin(run);
      runs.add(run);
      String name = run.leases.stream().map(lease -> lease.id).collect(Collectors.joining(" "));
      actions.add("start " + name);
      names.put(run, name);
    }

    /** The handlers that were cancelled since the last call. One that has returned does not hear of it. */
    private void noteCancelled() {
      names.forEach(
          (run, name) -> {
            if (state.read(() -> run.cause != null && state.runs.contains(run)) && cancelled.add(run)) {
              actions.add("cancel " + name + " " + run.cause.name().toLowerCase());
            }
          });
    }

    void step(JsonObject step) {
      time = nanos(step, "at_ms");
      actions.clear();
      apply(step);
      boolean wakes = state.clockChanged;
      long planned = state.nextLook;
      List<Keeper.Beat> due = keeper.look();
      assertTrue(wakes || planned <= state.nextLook, "the keeper is not woken, although it has to look earlier: " + step);
      for (Keeper.Beat beat : due) {
        beats.add(beat);
        beatSentAt.put(beat, time);
        Stream<String> ids = beat.request.getRenewalsList().stream().map(Machine::id);
        actions.add("send heartbeat " + ids.sorted().collect(Collectors.joining(" ")));
      }
      state.update(() -> state.requeueLocked(false));
      if (calls.isEmpty()) {
        settler.take().forEach(this::send);
        if (calls.isEmpty()) {
          settler.finish();
        }
      }
      if (claimedSlots == 0 && state.read(state::mayClaim)) {
        claimedSlots = state.read(state::reserveSlots);
        if (claimedSlots > 0) {
          actions.add("claim " + claimedSlots * state.options.slotSize());
        }
      }
      noteCancelled();
    }

    private void send(Settler.Call call) {
      Waiting waiting = new Waiting(call, time);
      calls.add(waiting);
      String ids = call.group().stream().map(Machine::id).sorted().collect(Collectors.joining(" "));
      actions.add("send " + waiting.kind + " " + ids + (call.next() == null ? "" : ", claim " + call.next().getMaxItems()));
    }

    private void apply(JsonObject step) {
      switch (step.get("event").getAsString()) {
        case "begin", "time" -> {}
        case "claimed" -> {
          int slots = claimedSlots;
          claimedSlots = 0;
          long sentAt = step.has("sent_ms") ? nanos(step, "sent_ms") : time;
          state.update(() -> state.accept(leases(step, "leases"), slots, sentAt, time));
        }
        case "returned" -> {
          List<String> ids = texts(step, "run").toList();
          Run run = runs.stream().filter(each -> each.leases.stream().map(lease -> lease.id).toList().equals(ids)).findFirst().orElseThrow();
          runs.remove(run);
          List<Ending> endings = run.leases.stream().map(lease -> ending(run, lease, step, state.options.timeLimit())).toList();
          state.update(() -> state.end(run, endings));
        }
        case "checkpoint" -> {
          HeldLease lease = state.held.get(step.get("lease").getAsString());
          state.saveCheckpoint(lease, new byte[number(step, "bytes", 0)]);
        }
        case "answer" -> answer(step);
        case "failed" -> fail(step);
        case "resent" -> {
          Waiting waiting = find(step);
          waiting.attempts++;
          settler.keepLeases(waiting.call.group());
        }
        case "stop" -> state.update(state::stop);
        case "cancel" -> state.update(state::cancelAll);
        case "leave" -> state.update(state::leaveHandlers);
        default -> throw new IllegalArgumentException(step.toString());
      }
    }

    private static Ending ending(Run run, HeldLease lease, JsonObject step, Duration timeLimit) {
      return switch (step.get("with").getAsString()) {
        case "result" -> Ending.completed(lease, null);
        case "release" -> Ending.released(lease, null);
        case "cancellation" -> Ending.of(lease, new CancelledException(run.cause), run.cause, timeLimit);
        case "dead_letter" -> Ending.failed(lease, step.get("text").getAsString(), null, true);
        default -> Ending.failed(lease, step.get("text").getAsString());
      };
    }

    private Waiting find(JsonObject step) {
      String kind = step.get("to").getAsString();
      return calls.stream().filter(waiting -> waiting.kind.equals(kind)).findFirst().orElseThrow();
    }

    private void answer(JsonObject step) {
      JsonObject outcomes = step.getAsJsonObject("outcomes");
      if (step.get("to").getAsString().equals("heartbeat")) {
        Keeper.Beat beat = beats.remove(0);
        HeartbeatResponse.Builder response = HeartbeatResponse.newBuilder();
        for (Renewal renewal : beat.request.getRenewalsList()) {
          String[] parts = outcomes.get(renewal.getLeaseId()).getAsString().split(": ", 2);
          HeartbeatResult.Builder result = HeartbeatResult.newBuilder().setOutcome(outcome(parts[0]));
          if (parts[0].equals("applied")) {
            result.setTimeLeft(Values.duration(Duration.ofMillis(number(step, "time_left_ms", 0))));
          } else if (result.getOutcome() == Outcome.OUTCOME_REFUSED) {
            result.setRefusal(refusal(parts));
          } else if (parts.length == 2) {
            result.setCancelReason(parts[1]);
          }
          response.addResults(result);
        }
        keeper.note(beat, new Caller.Attempt<>(response.build(), null), beatSentAt.get(beat));
        return;
      }
      Waiting waiting = find(step);
      calls.remove(waiting);
      List<SettleResult> results = new ArrayList<>();
      for (Ending ending : waiting.call.group()) {
        String[] parts = outcomes.get(ending.lease().id).getAsString().split(": ", 2);
        SettleResult.Builder result = SettleResult.newBuilder().setOutcome(outcome(parts[0]));
        if (result.getOutcome() == Outcome.OUTCOME_REFUSED) {
          result.setRefusal(refusal(parts));
        }
        results.add(result.build());
      }
      ClaimBatchResponse next = ClaimBatchResponse.newBuilder().addAllLeases(leases(step, "next")).build();
      Settler.Settlement settlement = new Settler.Settlement(results, next, null);
      settler.note(waiting.call, new Caller.Answer<>(settlement, waiting.sentAt, time, time, waiting.attempts));
      finish();
    }

    private void fail(JsonObject step) {
      Failure failure = Failure.of(Status.Code.UNAVAILABLE, "no answer", Failure.APPLIED_UNKNOWN);
      if (step.get("to").getAsString().equals("heartbeat")) {
        Keeper.Beat beat = beats.remove(0);
        keeper.note(beat, new Caller.Attempt<>(null, failure), beatSentAt.get(beat));
        return;
      }
      Waiting waiting = find(step);
      calls.remove(waiting);
      settler.note(waiting.call, new LeaseBrokerException("Complete", failure));
      finish();
    }

    private void finish() {
      if (calls.isEmpty()) {
        settler.finish();
      }
    }

    private static String id(Renewal renewal) {
      return withSize(renewal.getLeaseId(), renewal.hasCheckpoint() ? renewal.getCheckpoint().size() : 0);
    }

    private static String id(Ending ending) {
      return withSize(ending.lease().id, ending.checkpoint() == null ? 0 : ending.checkpoint().size());
    }

    private static String withSize(String id, int bytes) {
      return bytes == 0 ? id : id + "+" + bytes;
    }

    private static Outcome outcome(String name) {
      return Map.of(
              "applied", Outcome.OUTCOME_APPLIED, "lost", Outcome.OUTCOME_LEASE_LOST, "gone", Outcome.OUTCOME_GONE, "refused", Outcome.OUTCOME_REFUSED,
              "locked", Outcome.OUTCOME_REFUSED)
          .get(name);
    }

    /** Returns the refusal of an outcome and its text. */
    private static Refusal refusal(String[] outcome) {
      if (outcome[0].equals("locked")) {
        return Refusal.newBuilder().setReason(RefusalReason.REFUSAL_REASON_LOCKED).build();
      }
      String[] parts = outcome[1].split(": ", 2);
      Refusal.Builder refusal = Refusal.newBuilder().setMessage(parts[parts.length - 1]);
      return parts.length == 2 ? refusal.setField(parts[0]).build() : refusal.build();
    }

    private static List<Lease> leases(JsonObject step, String field) {
      Supplier<Lease.Builder> lease =
          () -> Lease.newBuilder().setAttempt(1).setTimeLeft(Values.duration(Duration.ofMillis(number(step, "time_left_ms", 0))));
      return texts(step, field)
          .map(id -> lease.get().setLeaseId(id).setItem(com.example.leasebroker.v1.Item.newBuilder().setKey(id)).build()).toList();
    }
  }

  private static Stream<JsonObject> objects(JsonArray array) {
    return array.asList().stream().map(JsonElement::getAsJsonObject);
  }

  private static Stream<String> texts(JsonObject object, String field) {
    return object.has(field) ? object.getAsJsonArray(field).asList().stream().map(JsonElement::getAsString) : Stream.of();
  }

  private static int number(JsonObject object, String field, int otherwise) {
    return object.has(field) ? object.get(field).getAsInt() : otherwise;
  }

  private static long nanos(JsonObject object, String field) {
    return object.get(field).getAsLong() * Clock.MILLISECOND;
  }
}
