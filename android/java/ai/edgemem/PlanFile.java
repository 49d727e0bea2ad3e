package ai.edgemem;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * The plans of a model, or of a stand-alone plan file: read and checked by the library, then immutable.
 *
 * <p>The library has to be loaded, which {@link PlannedModel} does; without one, call {@link #load} first. What a
 * session uses stays alive until the session is closed, so a plan file may be closed earlier.
 */
public final class PlanFile implements AutoCloseable {
  private final List<PlanSet> sets;
  private long handle;

  private PlanFile(byte[] bytes, int form) {
    handle = Native.planfileRead(bytes, form);
    boolean isRead = false;
    try {
      int count = Native.planfileSets(handle);
      List<PlanSet> read = new ArrayList<>(count);
      for (int i = 0; i < count; i++) {
        List<Record> records =
            Record.listOf(Native.planfileRecordNames(handle, i), Native.planfileRecordNumbers(handle, i));
        read.add(new PlanSet(Native.planfileSetNumbers(handle, i), Native.planfileSetTexts(handle, i), records));
      }
      sets = Collections.unmodifiableList(read);
      isRead = true;
    } finally {
      if (!isRead) {
        close();
      }
    }
  }

  /**
   * Loads the library, once in a process.
   *
   * @param library the file, or null for the one that came with the app
   */
  public static void load(String library) {
    Native.load(library);
  }

  /**
   * The plans inside an .onnx file.
   *
   * @throws IllegalArgumentException the bytes are no model, carry no plan or a damaged one; the message says which
   */
  public static PlanFile ofOnnx(byte[] model) {
    return new PlanFile(model, Native.FORM_ONNX);
  }

  /** The plans inside a .tflite file. Throws as {@link #ofOnnx}. */
  public static PlanFile ofTflite(byte[] model) {
    return new PlanFile(model, Native.FORM_TFLITE);
  }

  /** The plans of an .edgemem file. Throws as {@link #ofOnnx}. */
  public static PlanFile ofFile(byte[] file) {
    return new PlanFile(file, Native.FORM_PLANFILE);
  }

  /** Unmodifiable; readable after {@link #close}, too. */
  public List<PlanSet> sets() {
    return sets;
  }

  /** For {@link MemorySession}. */
  synchronized long handle() {
    if (handle == 0) {
      throw new IllegalStateException("the plan file is closed");
    }
    return handle;
  }

  /** A second call does nothing. */
  @Override
  public synchronized void close() {
    if (handle != 0) {
      Native.planfileRelease(handle);
      handle = 0;
    }
  }
}
