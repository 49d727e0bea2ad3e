package android.os;

/** A stand-in: a JVM does not tell what native code has allocated, which a negative number says. */
public final class Debug {
  public static long getNativeHeapAllocatedSize() {
    return -1;
  }
}
