package ai.edgemem;

import java.util.List;

/**
 * The memory of one model's runs. The plan in the file is tried first; a run that does not fit is recorded, and the next
 * run has a plan that was made of the record.
 *
 * <pre>
 *   memory.begin();
 *   try {
 *     // the runtime's run, on this thread; its results are copied and freed
 *   } finally {
 *     Run run = memory.end();
 *   }
 * </pre>
 *
 * <p>The library has to be loaded: see {@link PlanFile#load}. {@link #begin} and {@link #end} belong to one thread. The other methods may be called on any thread while no run is
 * open.
 */
public final class MemorySession implements AutoCloseable {
  private long handle;

  /**
   * @param file the plans to try, or null for none
   * @param poison fill unused memory of the arena with a pattern before each run, to prove that nothing reads it; slow
   */
  public MemorySession(PlanFile file, boolean poison) {
    int flags = poison ? Native.POISON : 0;
    if (file == null) {
      handle = Native.sessionCreate(0, flags);
    } else {
      synchronized (file) { // nobody closes it meanwhile
        handle = Native.sessionCreate(file.handle(), flags);
      }
    }
  }

  /** Begins a run on the calling thread. */
  public synchronized void begin() {
    Native.sessionBegin(open());
  }

  /** Ends the run on the thread that began it. */
  public synchronized Run end() {
    return new Run(Native.sessionEnd(open()));
  }

  /** The plan in use, for a memory map: empty before there is one. */
  public synchronized List<Record> places() {
    return Record.listOf(Native.sessionPlaceNames(open()), Native.sessionPlaceNumbers(open()));
  }

  /**
   * Gives the memory back. A second call does nothing.
   *
   * @throws IllegalStateException a run is open
   */
  @Override
  public synchronized void close() {
    if (handle != 0) {
      Native.sessionDestroy(handle);
      handle = 0;
    }
  }

  private long open() {
    if (handle == 0) {
      throw new IllegalStateException("the session is closed");
    }
    return handle;
  }
}
