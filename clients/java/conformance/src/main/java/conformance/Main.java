package conformance;

import com.example.leasebroker.Credentials;
import com.example.leasebroker.HandlersLeftException;
import com.example.leasebroker.Queue;
import com.example.leasebroker.Worker;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * The worker program of the harness, which starts it, gives it commands as JSON lines on stdin, and reads its events as JSON
 * lines from stdout.
 */
public final class Main {
  private Main() {}

  /** Runs a worker, or the loop over the stubs. */
  public static void main(String[] arguments) throws IOException {
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    JsonObject options = JsonParser.parseString(commands.readLine()).getAsJsonObject().getAsJsonObject("options");
    Journal journal = new Journal();
    if (flag(options, "raw")) {
      RawLoop.run(options, address(options), journal);
      return;
    }
    boolean noop = flag(options, "noop");
    Speed speed = new Speed(journal, options);
    Worker worker = worker(options, noop ? speed : journal::event, new Work(journal, text(options, "effects"), noop));
    speed.onDone(() -> start("stop", worker::stop));
    start("commands", () -> obey(commands, worker, journal));
    journal.write("ready", line -> {});
    speed.begin();
    try {
      worker.run();
    } catch (HandlersLeftException left) {
      System.exit(1);
    } catch (RuntimeException error) {
      error.printStackTrace();
      System.exit(2);
    }
    System.exit(0);
  }

  private static Worker worker(JsonObject options, Consumer<com.example.leasebroker.Event> observer, Work work) {
    String name = text(options, "queue");
    Queue queue =
        options.has("batch") && !options.get("batch").isJsonNull()
            ? Queue.ofBatches(name, options.get("batch").getAsInt(), work::batch)
            : Queue.of(name, work::one);
    Worker.Builder builder = Worker.builder(address(options), queue.onEvent(observer));
    set(options, "worker_id", value -> builder.workerId(value.getAsString()));
    set(options, "concurrency", value -> queue.concurrency(value.getAsInt()));
    set(options, "lease_ms", value -> queue.lease(milliseconds(value)));
    set(options, "heartbeat", value -> queue.heartbeat(value.getAsBoolean()));
    set(options, "time_limit_ms", value -> queue.timeLimit(milliseconds(value)));
    set(options, "wait_ms", value -> queue.wait(milliseconds(value)));
    set(options, "grace_ms", value -> builder.grace(milliseconds(value)));
    set(options, "stuck_after_ms", value -> queue.stuckAfter(milliseconds(value)));
    set(options, "max_stuck", value -> queue.maxStuck(value.getAsInt()));
    set(options, "executor_threads", value -> queue.executor(executor(value.getAsInt())));
    if (options.has("ca_file")) {
      builder.credentials(
          Credentials.tls(Path.of(text(options, "ca_file")), Path.of(text(options, "cert_file")), Path.of(text(options, "key_file")), null));
    }
    return builder.build();
  }

  /** Returns an executor that refuses a handler if all its threads are busy. */
  private static Executor executor(int threads) {
    return new ThreadPoolExecutor(threads, threads, 1, TimeUnit.MINUTES, new SynchronousQueue<>());
  }

  /** Obeys the commands of stdin. Its end is a stop. */
  private static void obey(BufferedReader commands, Worker worker, Journal journal) {
    try {
      for (String line = commands.readLine(); line != null; line = commands.readLine()) {
        JsonObject command = JsonParser.parseString(line).getAsJsonObject();
        switch (command.get("cmd").getAsString()) {
          case "health" -> journal.write("health", answer -> answer.addProperty("ok", worker.health()));
          case "counters" -> journal.write("counters", answer -> answer.add("counters", Journal.counters(worker.counters())));
          case "stop" -> {
            JsonElement grace = command.get("grace_ms");
            start("stop", grace == null ? worker::stop : () -> worker.stop(milliseconds(grace)));
          }
          default -> throw new IllegalArgumentException(line);
        }
      }
      worker.stop();
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  /** Runs an action that can fail as `run` fails: there the failure is the exit code. */
  private static void start(String name, Runnable action) {
    Thread thread = new Thread(
        () -> {
          try {
            action.run();
          } catch (HandlersLeftException left) {
            // `run` throws it too.
          }
        }, name);
    thread.setDaemon(true);
    thread.start();
  }

  static String address(JsonObject options) {
    JsonElement address = options.get("address");
    if (!address.isJsonArray()) {
      return address.getAsString();
    }
    List<String> all = new ArrayList<>();
    address.getAsJsonArray().forEach(each -> all.add(each.getAsString()));
    return String.join(",", all);
  }

  private static void set(JsonObject options, String name, Consumer<JsonElement> setter) {
    if (options.has(name) && !options.get(name).isJsonNull()) {
      setter.accept(options.get(name));
    }
  }

  static boolean flag(JsonObject options, String name) {
    return options.has(name) && !options.get(name).isJsonNull() && options.get(name).getAsBoolean();
  }

  static long number(JsonObject options, String name, long absent) {
    return options.has(name) && !options.get(name).isJsonNull() ? options.get(name).getAsLong() : absent;
  }

  static String text(JsonObject options, String name) {
    return options.has(name) && !options.get(name).isJsonNull() ? options.get(name).getAsString() : "";
  }

  private static Duration milliseconds(JsonElement value) {
    return Duration.ofMillis(value.getAsLong());
  }
}
