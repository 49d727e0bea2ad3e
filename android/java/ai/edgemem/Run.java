package ai.edgemem;

/** What happened to the memory of one run. Sizes are bytes. */
public final class Run {
  /** Which plan the run followed. */
  public enum Source {
    /** None: the heap served the run, which was recorded to plan the next one. */
    RECORDED("none: recorded"),
    /** The plan in the model's file. */
    FILE("file"),
    /** A plan that was made here, of a run that was recorded before. */
    MADE_HERE("made on this device");

    /** In words for people. */
    public final String words;

    Source(String words) {
      this.words = words;
    }
  }

  public final Source source;

  /** Whether every request of the run's thread came from the arena, and there was one. */
  public final boolean isComplete;

  /** What the plan says that the run needs; 0 without a plan. */
  public final long planned;

  /** What was allocated for the arena. */
  public final long arena;

  /** The end of the highest byte of the arena that was given out. */
  public final long measured;

  /** No plan of these requests is smaller. */
  public final long lowerBound;

  /** All requests that have a place, end to end. */
  public final long naive;

  public final long requests;

  /** Requests that the arena served. */
  public final long hits;

  /** Requests that the heap served. */
  public final long misses;

  /** The most bytes alive at once in the heap. */
  public final long heapPeak;

  /** Changes of plan in this session so far, to one that was made here or to another of the file's. */
  public final long replans;

  Run(long[] numbers) {
    if (numbers.length != 12 || numbers[0] < 0 || numbers[0] >= Source.values().length) {
      throw new IllegalStateException("libedgemem.so describes a run in another way than this code reads it");
    }
    source = Source.values()[(int) numbers[0]];
    isComplete = numbers[1] != 0;
    planned = numbers[2];
    arena = numbers[3];
    measured = numbers[4];
    lowerBound = numbers[5];
    naive = numbers[6];
    requests = numbers[7];
    hits = numbers[8];
    misses = numbers[9];
    heapPeak = numbers[10];
    replans = numbers[11];
  }
}
