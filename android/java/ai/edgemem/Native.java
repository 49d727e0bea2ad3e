package ai.edgemem;

import java.nio.ByteBuffer;

/**
 * The calls into libedgemem.so. A handle is a number that a native call gave; it is never 0 and is used until its
 * release. Arguments that are wrong, and plan files that cannot be read for whatever reason, are an
 * IllegalArgumentException, a run that is still open and other shortages of memory an IllegalStateException, each with
 * the library's own words.
 */
final class Native {
  static final int FORM_PLANFILE = 0;
  static final int FORM_ONNX = 1;
  static final int FORM_TFLITE = 2;

  static final int POISON = 1;

  /** The interface that these declarations are for; {@link #load} refuses a library with another one. */
  private static final int ABI = 2;

  private static boolean isLoaded;

  private Native() {}

  /**
   * Loads the library, once in a process.
   *
   * @param path of the file, or null for the one that came with the app
   * @throws UnsatisfiedLinkError there is none for this processor
   * @throws IllegalStateException it has another interface than this code
   */
  static synchronized void load(String path) {
    if (isLoaded) {
      return;
    }
    if (path == null) {
      System.loadLibrary("edgemem");
    } else {
      System.load(path);
    }
    int found = abi();
    if (found != ABI) {
      throw new IllegalStateException(
          "libedgemem.so has interface " + found + ", this app is for " + ABI + ": build both from one version");
    }
    isLoaded = true;
  }

  static native int abi();

  static native long planfileRead(byte[] bytes, int form);

  static native void planfileRelease(long file);

  static native int planfileSets(long file);

  /** 9 numbers: kind, isUsable, arena, lowerBound, naive, alignment, records, steps, isOptimal. */
  static native long[] planfileSetNumbers(long file, int set);

  /** 6 texts: target, digest, strategy, runtime, version, model. */
  static native String[] planfileSetTexts(long file, int set);

  static native String[] planfileRecordNames(long file, int set);

  /** 5 numbers a record: first, last, size, offset, kind. */
  static native long[] planfileRecordNumbers(long file, int set);

  static native long sessionCreate(long fileOrZero, int flags);

  static native void sessionBegin(long session);

  /**
   * 12 numbers: source, isComplete, planned, arena, measured, lowerBound, naive, requests, hits, misses, heapPeak,
   * replans.
   */
  static native long[] sessionEnd(long session);

  static native String[] sessionPlaceNames(long session);

  /** 5 numbers a record: first, last, size, offset, kind. */
  static native long[] sessionPlaceNumbers(long session);

  static native void sessionDestroy(long session);

  static native void tflitePlace(String libraryOrNull, long interpreter, long file, ByteBuffer arena);

  static native String ortVersion();

  static native String ortError();

  /** 7 numbers: contexts, arenas, arenaBytes, heapLive, heapPeak, reserveLive, outside. */
  static native long[] totals();

  static native long trim();
}
