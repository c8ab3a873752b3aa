package conformance;

import com.example.leasebroker.Event;
import com.google.gson.JsonObject;
import java.lang.management.ManagementFactory;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/** Measures the time that a number of items takes. Those of the warm-up come first and do not count. */
final class Speed implements Consumer<Event> {
  private final Journal journal;
  private final long warmUp;
  private final long until;
  private final AtomicLong completed = new AtomicLong();
  private Runnable done = () -> {};
  private volatile long begun;
  private volatile long processor;

  Speed(Journal journal, JsonObject options) {
    this.journal = journal;
    warmUp = Main.number(options, "warm_up", 0);
    until = warmUp + Main.number(options, "until", 0);
  }

  /** Sets the action that follows the last item. */
  void onDone(Runnable action) {
    done = action;
  }

  void begin() {
    begun = System.nanoTime();
    processor = processorNanos();
  }

  @Override
  public void accept(Event event) {
    if (event.name() == Event.Name.COMPLETED && add(1)) {
      done.run();
    }
  }

  /** Counts completed items. Returns true after the last one. */
  boolean add(long items) {
    long all = completed.addAndGet(items);
    if (all - items < warmUp && all >= warmUp) {
      begin();
    }
    boolean ends = all - items < until && all >= until;
    if (ends) {
      report(all - warmUp);
    }
    return ends;
  }

  /** Prints the number of items, and the times since `begin`. */
  private void report(long items) {
    double seconds = (System.nanoTime() - begun) / 1e9;
    double processorSeconds = (processorNanos() - processor) / 1e9;
    journal.write(
        "done",
        line -> {
          line.addProperty("items", items);
          line.addProperty("seconds", seconds);
          line.addProperty("cpu_seconds", processorSeconds);
        });
  }

  private static long processorNanos() {
    return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
  }
}
