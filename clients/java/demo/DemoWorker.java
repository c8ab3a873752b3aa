import com.example.leasebroker.Context;
import com.example.leasebroker.Event;
import com.example.leasebroker.FollowUp;
import com.example.leasebroker.Item;
import com.example.leasebroker.Queue;
import com.example.leasebroker.Result;
import com.example.leasebroker.Worker;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * A worker of `lease-broker demo --language java`. The command passes: address, name, items per batch, journal file.
 *
 * <p>It computes the litres of rain of each row, writes them into the row, and adds them to the queue `outbox`. Its journal has
 * a line for each step with an item, written before the next step.
 */
public final class DemoWorker {
  private static final long MILLISECONDS_PER_ITEM = 3;
  private static final Map<Event.Name, String> ACTIONS =
      Map.of(Event.Name.CLAIMED, "claimed", Event.Name.COMPLETED, "completed", Event.Name.LOST, "lost", Event.Name.UNKNOWN, "lost");

  private final String name;
  private final OutputStream journal;

  private DemoWorker(String name, OutputStream journal) {
    this.name = name;
    this.journal = journal;
  }

  public static void main(String[] arguments) throws IOException {
    try (OutputStream journal = new FileOutputStream(arguments[3], true)) {
      DemoWorker demo = new DemoWorker(arguments[1], journal);
      Worker worker =
          Worker.builder(arguments[0], Queue.ofBatches("rainfall", Integer.parseInt(arguments[2]), demo::process).onEvent(demo::record))
              .workerId(demo.name)
              .build();
      Thread stop = new Thread(() -> stopAtEndOfInput(worker), "stop");
      stop.setDaemon(true);
      stop.start();
      worker.run();
    }
  }

  /** The demo closes standard input when the worker shall stop. */
  private static void stopAtEndOfInput(Worker worker) {
    try {
      System.in.transferTo(OutputStream.nullOutputStream());
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    worker.stop();
  }

  private Map<Item, Result> process(List<Item> items, Context context) throws InterruptedException {
    Thread.sleep(MILLISECONDS_PER_ITEM * items.size());
    Map<Item, Result> results = new HashMap<>();
    for (Item item : items) {
      results.put(item, result(item));
    }
    write("completing", items);
    return results;
  }

  private Result result(Item item) {
    // SQLite stores a whole number as an integer, also in a column of type decimal.
    double litres = Double.parseDouble(String.valueOf(item.columns().get("Millimetres"))) * 1_000;
    Map<String, Object> row = Map.of("event_id", item.getLong("Event_ID"), "worker", name, "litres", litres);
    return new Result(Map.of("Litres", litres), List.of(new FollowUp("outbox", row)));
  }

  private void record(Event event) {
    String action = ACTIONS.get(event.name());
    if (action != null && event.item() != null) {
      write(action, List.of(event.item()));
    }
  }

  /** Appends a line for each item by one write. */
  private void write(String action, List<Item> items) {
    StringBuilder lines = new StringBuilder();
    for (Item item : items) {
      lines.append("{\"key\":\"").append(item.key()).append("\",\"action\":\"").append(action).append("\"}\n");
    }
    try {
      journal.write(lines.toString().getBytes(StandardCharsets.UTF_8));
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
