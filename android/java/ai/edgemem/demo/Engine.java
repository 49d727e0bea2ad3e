package ai.edgemem.demo;

import ai.edgemem.Latency;
import ai.edgemem.PlanSet;
import ai.edgemem.PlannedModel;
import ai.edgemem.Port;
import ai.edgemem.Provider;
import ai.edgemem.Run;
import ai.onnxruntime.OrtException;
import java.io.IOException;
import java.nio.FloatBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Opens and runs the model on a thread of its own, and tells a listener what the screen is to show. No android import.
 *
 * <p>It outlives the activity when the screen turns: the new activity attaches itself as the listener.
 */
final class Engine {
  /** What the engine takes from the system. */
  interface Host {
    /** The bytes of an asset. */
    byte[] asset(String name) throws IOException;

    /** Runs something on the thread of the user interface. */
    void post(Runnable what);

    /** Bytes that native code has allocated and not freed; negative if the system does not tell. */
    long nativeHeap();
  }

  /** Called on the thread of the user interface. */
  interface Listener {
    void show(Snapshot snapshot, boolean isBusy);
  }

  /** Something that may fail with any exception. */
  private interface Task {
    void run() throws Exception;
  }

  private final Host host;
  private final ExecutorService thread = Executors.newSingleThreadExecutor();
  private final AtomicInteger waiting = new AtomicInteger();
  private final AtomicInteger pauses = new AtomicInteger();

  // Of the engine's thread.
  private Config config;
  private byte[] model;
  private List<String> labels;
  private PlannedModel session;
  private Picture picture;
  private Picture fed;
  private String pictureProblem = "";
  private final Map<Boolean, Long> growth = new HashMap<>();
  private Map<String, float[]> outputs;
  private boolean isInPlan;
  private int runs;

  // Of the thread of the user interface.
  private Listener listener;
  private Snapshot last = new Snapshot();
  private boolean isPlanned = true;
  private Provider provider = Provider.CPU;
  private boolean hasDropped;
  private boolean isClosed;

  Engine(Host host) {
    this.host = host;
  }

  /** Who is told from now on, or null for nobody; it is told the last state at once. */
  void attach(Listener one) {
    listener = one;
    if (one != null) {
      if (hasDropped) {
        hasDropped = false;
        run(1);
      }
      one.show(last, isBusy());
    }
  }

  /** Whether something is still to be done. */
  boolean isBusy() {
    return waiting.get() > 0;
  }

  boolean isPlanned() {
    return isPlanned;
  }

  Provider provider() {
    return provider;
  }

  /** Opens the session again, as asked for, and runs it this often. */
  void open(boolean inPlan, Provider by, int times) {
    isPlanned = inPlan;
    provider = by;
    PlannedModel.Options options = new PlannedModel.Options();
    options.planned = inPlan;
    options.provider = by;
    submit(() -> reopen(options));
    run(times);
  }

  /** Runs the model this often and shows each run. */
  void run(int times) {
    int since = pauses.get();
    for (int i = 0; i < times; i++) {
      submit(
          () -> {
            if (pauses.get() == since) {
              runOnce();
            }
          });
    }
  }

  /** Drops the runs that have not begun; the next listener gets one for them. */
  void pause() {
    hasDropped |= isBusy();
    pauses.incrementAndGet();
  }

  /** Makes a picture on the engine's thread and runs the model with it. */
  void choose(Choice choice) {
    submit(
        () -> {
          try {
            picture = choice.make();
            pictureProblem = "";
          } catch (IOException | RuntimeException | OutOfMemoryError e) { // what other apps' providers throw
            pictureProblem = "the last picture stays: " + (e.getMessage() == null ? e.toString() : e.getMessage());
            return;
          }
          runOnce();
        });
  }

  /** Makes a picture, on the engine's thread. */
  interface Choice {
    Picture make() throws IOException;
  }

  /** Ends the session on the engine's thread, after what is under way; nothing is shown any more. */
  void close() {
    isClosed = true;
    pause();
    listener = null;
    submit(this::closeSession);
    thread.shutdown();
  }

  private void submit(Task task) {
    waiting.incrementAndGet();
    try {
      thread.execute(
          () -> {
            Snapshot made = null;
            try {
              task.run();
              made = session == null ? null : snapshot();
            } catch (Exception | LinkageError | OutOfMemoryError e) {
              made = failed(e);
            } finally {
              waiting.decrementAndGet();
              tell(made);
            }
          });
    } catch (RejectedExecutionException e) {
      waiting.decrementAndGet(); // closed before
    }
  }

  private void tell(Snapshot made) {
    host.post(
        () -> {
          if (isClosed) {
            return;
          }
          if (made != null) {
            last = made;
          }
          if (listener != null) {
            listener.show(last, isBusy());
          }
        });
  }

  private Snapshot failed(Throwable e) {
    Snapshot made = new Snapshot();
    made.modelName = config == null ? "" : config.model;
    made.picture = picture;
    String message = e.getMessage();
    made.error = message == null || message.isEmpty() ? e.getClass().getSimpleName() : firstLine(message);
    return made;
  }

  private static String firstLine(String text) {
    int end = text.indexOf('\n');
    return end < 0 ? text : text.substring(0, end);
  }

  private void reopen(PlannedModel.Options options) throws Exception {
    closeSession();
    if (model == null) {
      Assets read = Assets.read(host);
      config = read.config;
      labels = read.labels;
      model = read.model;
      picture = Picture.drawn();
    }
    options.level = config.level;
    options.dims.putAll(config.dims);
    options.shapes.putAll(config.shapes);
    session = new PlannedModel(model, options);
    isInPlan = options.planned;
    fed = null;
    runs = 0;
  }

  private void closeSession() throws OrtException {
    if (session != null) {
      PlannedModel old = session;
      session = null;
      old.close();
    }
  }

  private void runOnce() throws Exception {
    if (session == null) {
      return; // it did not open, which the screen says
    }
    Map<String, FloatBuffer> feeds = new HashMap<>();
    Port input = pictureInput();
    if (input != null && picture != fed) {
      feeds.put(input.name, picture.values(input, config.scale)); // which the session keeps
    }
    long before = host.nativeHeap();
    outputs = session.run(feeds);
    fed = picture;
    if (runs++ == 0) {
      long after = host.nativeHeap();
      Run run = session.lastRun();
      long mapped = run == null ? 0 : run.arena + run.heapPeak; // edgemem's, which the native heap does not count
      growth.put(isInPlan, before < 0 || after < 0 ? -1 : Math.max(0, after - before) + mapped);
    }
  }

  private Port pictureInput() {
    for (Port input : session.inputs()) {
      if (Picture.isFor(input)) {
        return input;
      }
    }
    return null;
  }

  private Snapshot snapshot() {
    Snapshot made = new Snapshot();
    made.modelName = config.model;
    made.runtimeVersion = session.version();
    made.provider = session.provider();
    made.notes = new ArrayList<>(session.notes());
    made.places = session.places();
    made.isPlanned = isInPlan;
    made.planSet = session.plan() == null ? null : best(session.plan().sets());
    made.run = session.lastRun();
    made.runs = runs;
    Latency latency = session.latency();
    made.firstMs = latency.firstMs();
    made.medianMs = latency.medianMs();
    made.ninetiethMs = latency.percentileMs(90);
    made.timed = latency.count();
    made.picture = pictureInput() == null ? null : picture;
    made.resident = ProcessMemory.resident();
    made.plainGrowth = growth.containsKey(false) ? growth.get(false) : -1;
    made.plannedGrowth = growth.containsKey(true) ? growth.get(true) : -1;
    if (runs > 0) {
      made.digest = session.outputDigest();
      made.sum = sum(outputs);
      made.answer = Answer.of(config.task, labels, session.outputs(), outputs, side());
    }
    if (!pictureProblem.isEmpty()) {
      made.notes.add(pictureProblem);
    }
    String plan = Texts.planNote(made);
    if (!plan.isEmpty()) {
      made.notes.add(plan);
    }
    return made;
  }

  private int side() {
    Port input = pictureInput();
    return input == null ? 0 : (int) input.shape()[2]; // equal to the third where a picture is square
  }

  private static double sum(Map<String, float[]> outputs) {
    double sum = 0;
    for (float[] values : outputs.values()) {
      for (float value : values) {
        sum += value;
      }
    }
    return sum;
  }

  private static PlanSet best(List<PlanSet> sets) {
    for (PlanSet set : sets) {
      if (set.isUsable && set.kind == PlanSet.Kind.RECORDING) {
        return set;
      }
    }
    return sets.isEmpty() ? null : sets.get(0);
  }
}
