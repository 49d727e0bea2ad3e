package android.os;

/** A stand-in. */
public class Handler {
  public Handler(Looper looper) {}

  public final boolean post(Runnable r) {
    return Looper.QUEUE.add(r);
  }
}
