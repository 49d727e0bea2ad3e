package android.os;

public final class Debug {
  Debug() {}

  public static long getNativeHeapAllocatedSize() {
    throw new RuntimeException("stub");
  }
}
