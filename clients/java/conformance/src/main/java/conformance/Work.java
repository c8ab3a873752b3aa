package conformance;

import com.example.leasebroker.BatchException;
import com.example.leasebroker.Context;
import com.example.leasebroker.DeadLetter;
import com.example.leasebroker.FollowUp;
import com.example.leasebroker.Item;
import com.example.leasebroker.Release;
import com.example.leasebroker.Result;
import com.example.leasebroker.Retry;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The handlers. The column `payload` of an item says as JSON what they do. */
final class Work {
  private static final Object EFFECTS = new Object();
  private static final long BLOCK_MILLISECONDS = 10_000;

  private final Journal journal;
  private final String effects;
  private final boolean noop;

  Work(Journal journal, String effects, boolean noop) {
    this.journal = journal;
    this.effects = effects;
    this.noop = noop;
  }

  Result one(Item item, Context context) throws Exception {
    if (noop) {
      return null;
    }
    JsonObject script = JsonParser.parseString(item.getString("payload")).getAsJsonObject();
    String checkpoint = Main.text(script, "checkpoint");
    if (!checkpoint.isEmpty()) {
      context.checkpoint(item, checkpoint.getBytes(StandardCharsets.UTF_8));
    }
    String onCancel = Main.text(script, "on_cancel");
    if (!onCancel.isEmpty()) {
      context.onCancel(() -> actOnCancel(onCancel));
    }
    long sleep = Main.number(script, "sleep_ms", 0);
    if (Main.flag(script, "ignore_cancel")) {
      sleepThrough(sleep);
    } else {
      Thread.sleep(sleep);
    }
    sleepThrough(Main.number(script, "block_ms", 0) + Main.number(script, "hold_ms", 0));
    String effect = Main.text(script, "effect");
    if (!effect.isEmpty()) {
      effect(effect, item);
    }
    return end(script);
  }

  /** Does each item in turn, and fails those that fail. */
  Map<Item, Result> batch(List<Item> items, Context context) throws Exception {
    Map<Item, Result> results = new HashMap<>();
    Map<Item, Throwable> errors = new HashMap<>();
    for (Item item : items) {
      try {
        results.put(item, one(item, context));
      } catch (Exception error) {
        errors.put(item, error);
      }
    }
    if (!errors.isEmpty()) {
      throw new BatchException(errors);
    }
    return results;
  }

  /** Throws, or blocks for longer than a lease. */
  private static void actOnCancel(String how) {
    if (how.equals("raise")) {
      throw new IllegalStateException("raised in onCancel");
    }
    sleepThrough(BLOCK_MILLISECONDS);
  }

  /** Sleeps, and ignores interrupts. */
  private static void sleepThrough(long milliseconds) {
    long until = System.nanoTime() + milliseconds * 1_000_000;
    for (long left = milliseconds; left > 0; left = (until - System.nanoTime()) / 1_000_000) {
      try {
        Thread.sleep(left);
      } catch (InterruptedException ignored) {
        // The item says so.
      }
    }
  }

  private static Result end(JsonObject script) throws Exception {
    Duration after = script.has("after_ms") ? Duration.ofMillis(script.get("after_ms").getAsLong()) : null;
    String then = Main.text(script, "then");
    switch (then) {
      case "", "complete":
        return new Result(row(script.getAsJsonObject("columns")), followUps(script));
      case "raise":
        throw new IllegalStateException("raised");
      case "retry":
        throw new Retry("retry", after);
      case "dead":
        throw new DeadLetter("dead");
      case "release":
        throw new Release(after);
      case "exit":
        Runtime.getRuntime().halt(3);
        return null;
      default:
        throw new IllegalArgumentException("unknown ending " + then);
    }
  }

  private static List<FollowUp> followUps(JsonObject script) {
    List<FollowUp> followUps = new ArrayList<>();
    if (script.has("follow_ups")) {
      for (JsonElement each : script.getAsJsonArray("follow_ups")) {
        JsonObject followUp = each.getAsJsonObject();
        followUps.add(new FollowUp(followUp.get("queue").getAsString(), row(followUp.getAsJsonObject("columns"))));
      }
    }
    return followUps;
  }

  private static Map<String, Object> row(JsonObject columns) {
    Map<String, Object> row = new HashMap<>();
    if (columns != null) {
      columns.entrySet().forEach(column -> row.put(column.getKey(), value(column.getValue())));
    }
    return row;
  }

  /** Makes integers of JSON numbers without a point. */
  private static Object value(JsonElement value) {
    if (value.isJsonNull()) {
      return null;
    }
    JsonPrimitive primitive = value.getAsJsonPrimitive();
    if (primitive.isBoolean()) {
      return primitive.getAsBoolean();
    } else if (primitive.isString()) {
      return primitive.getAsString();
    }
    String number = primitive.getAsString();
    return number.matches("-?\\d+") ? (Object) Long.valueOf(number) : Double.valueOf(number);
  }

  /** Appends a line to the file of effects, unless a later lease has done so before. */
  private void effect(String name, Item item) throws IOException {
    // Locks of files are those of the process: threads need their own.
    synchronized (EFFECTS) {
      try (RandomAccessFile file = new RandomAccessFile(effects, "rw"); FileLock lock = file.getChannel().lock()) {
        if (!lock.isValid()) {
          throw new IOException("the file of effects is not locked");
        }
        for (String line = file.readLine(); line != null; line = file.readLine()) {
          String[] fields = line.split(" ");
          if (fields.length == 3 && fields[0].equals(name) && fields[1].equals(item.key()) && Long.parseLong(fields[2]) > item.fencingToken()) {
            journal.write("effect_refused", refused -> {
              refused.addProperty("key", item.key());
              refused.addProperty("attempt", item.attempt());
              refused.addProperty("fence", item.fencingToken());
            });
            return;
          }
        }
        file.write((name + " " + item.key() + " " + item.fencingToken() + "\n").getBytes(StandardCharsets.UTF_8));
      }
    }
  }
}
