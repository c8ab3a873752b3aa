package conformance;

import com.example.leasebroker.Event;
import com.example.leasebroker.Item;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.function.Consumer;

/** Prints events as JSON lines. Each line is written before the step that follows the event. */
final class Journal {
  private final Gson gson = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
  private final PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);

  void event(Event event) {
    write(event.name().toString(), line -> describe(event, line));
  }

  private static void describe(Event event, JsonObject line) {
    Item item = event.item();
    if (item != null) {
      line.addProperty("key", item.key());
      line.addProperty("attempt", item.attempt());
      line.addProperty("fence", item.fencingToken());
      if (event.name() == Event.Name.STARTED) {
        line.add(
            "checkpoint",
            item.checkpoint().map(bytes -> (com.google.gson.JsonElement) new JsonPrimitive(new String(bytes, StandardCharsets.UTF_8)))
                .orElse(JsonNull.INSTANCE));
      }
    }
    add(line, "cause", event.cause() == null ? null : event.cause().toString());
    add(line, "reason", event.reason());
    add(line, "error", event.error());
    if (event.name() == Event.Name.HEARTBEAT) {
      line.addProperty("count", event.count());
    }
    if (event.retry() != null) {
      line.addProperty("rpc", event.retry().rpc());
      line.addProperty("code", event.retry().code());
      line.addProperty("attempt", event.retry().attempt());
      line.addProperty("wait_ms", event.retry().pause().toMillis());
    }
  }

  private static void add(JsonObject line, String name, String value) {
    if (value != null) {
      line.addProperty(name, value);
    }
  }

  /** Prints a line with the time of the monotonic clock. */
  synchronized void write(String name, Consumer<JsonObject> fields) {
    JsonObject line = new JsonObject();
    line.addProperty("ev", name);
    line.addProperty("at_ms", System.nanoTime() / 1_000_000);
    fields.accept(line);
    out.println(gson.toJson(line));
  }

  static JsonObject counters(Map<Event.Name, Long> counters) {
    JsonObject object = new JsonObject();
    counters.forEach((name, count) -> object.addProperty(name.toString(), count));
    return object;
  }
}
