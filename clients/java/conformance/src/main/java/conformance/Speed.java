package conformance;

import com.example.leasebroker.Event;
import java.lang.management.ManagementFactory;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/** Measures the time that a number of items takes. */
final class Speed implements Consumer<Event> {
  private final Journal journal;
  private final long until;
  private final AtomicLong completed = new AtomicLong();
  private Runnable done = () -> {};
  private long begun;
  private long processor;

  Speed(Journal journal, long until) {
    this.journal = journal;
    this.until = until;
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
    if (event.name() == Event.Name.COMPLETED && completed.incrementAndGet() == until) {
      report(until);
      done.run();
    }
  }

  /** Prints the number of items, and the times since `begin`. */
  void report(long items) {
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
