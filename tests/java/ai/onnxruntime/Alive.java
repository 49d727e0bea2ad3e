package ai.onnxruntime;

import java.util.concurrent.atomic.AtomicInteger;

/** What was made and not closed; told when the process ends. */
public final class Alive {
  public static final AtomicInteger TENSORS = new AtomicInteger();
  public static final AtomicInteger SESSIONS = new AtomicInteger();
  public static final AtomicInteger OPTIONS = new AtomicInteger();

  static {
    Runtime.getRuntime().addShutdownHook(new Thread(() -> System.err.println("alive: " + told())));
  }

  private Alive() {}

  public static String told() {
    return TENSORS + " tensors, " + SESSIONS + " sessions, " + OPTIONS + " options";
  }
}
