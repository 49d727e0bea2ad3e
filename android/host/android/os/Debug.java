package android.os;

/** A stand-in: a JVM does not tell what native code has allocated. */
public final class Debug {
  public static long getNativeHeapAllocatedSize() {
    return Long.getLong("host.nativeHeap", 0);
  }
}
