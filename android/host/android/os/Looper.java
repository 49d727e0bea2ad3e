package android.os;

import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A stand-in: the thread that calls `next` is the one of the user interface. */
public final class Looper {
  static final LinkedBlockingQueue<Runnable> QUEUE = new LinkedBlockingQueue<>();
  private static final Looper MAIN = new Looper();

  public static Looper getMainLooper() {
    return MAIN;
  }

  /** Runs the next thing that was posted; false if none came in this time. */
  public static boolean next(long milliseconds) throws InterruptedException {
    Runnable one = QUEUE.poll(milliseconds, TimeUnit.MILLISECONDS);
    if (one == null) {
      return false;
    }
    one.run();
    return true;
  }
}
