package android.os;

public final class Looper {
  Looper() {}

  public static Looper getMainLooper() {
    throw new RuntimeException("stub");
  }
}
