package ai.edgemem;

import java.util.Arrays;

/** How long runs took: the first one, and the last {@value #MOST} that came after it. */
public final class Latency {
  public static final int MOST = 50;

  private final long[] last = new long[MOST];
  private int count;
  private int next;
  private long firstNs = -1;

  /** Adds a run of this many nanoseconds. */
  public synchronized void add(long ns) {
    if (firstNs < 0) {
      firstNs = ns;
      return;
    }
    last[next] = ns;
    next = (next + 1) % MOST;
    count = Math.min(count + 1, MOST);
  }

  /** The runs that the median and the percentile are of. */
  public synchronized int count() {
    return count;
  }

  /** Of the first run, in milliseconds; NaN before it. */
  public synchronized double firstMs() {
    return firstNs < 0 ? Double.NaN : firstNs / 1e6;
  }

  /** In milliseconds; NaN before the second run. */
  public double medianMs() {
    return percentileMs(50);
  }

  /**
   * The smallest time that this percentage of the runs did not exceed, in milliseconds; NaN before the second run.
   *
   * @param percent above 0, at most 100
   */
  public synchronized double percentileMs(int percent) {
    if (percent <= 0 || percent > 100) {
      throw new IllegalArgumentException("a percentage is above 0 and at most 100, not " + percent);
    }
    if (count == 0) {
      return Double.NaN;
    }
    long[] sorted = Arrays.copyOf(last, count);
    Arrays.sort(sorted);
    return sorted[(count * percent + 99) / 100 - 1] / 1e6;
  }
}
