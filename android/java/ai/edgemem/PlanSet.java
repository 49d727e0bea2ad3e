package ai.edgemem;

import java.util.List;

/** One plan of a plan file. */
public final class PlanSet {
  /** What was planned. */
  public enum Kind {
    GRAPH,
    RECORDING,
    CYCLE
  }

  public final Kind kind;

  /** Whether this library can follow it: one arena, and nothing in it that the library does not honour. */
  public final boolean isUsable;

  /** The rules that it was planned for, such as `litert`; "" if it names none. */
  public final String target;

  /** Of the model that it was made for; "" if it names none. */
  public final String digest;

  public final String strategy;

  /** That made the recording, such as `onnxruntime`; "" for a plan of a graph. */
  public final String runtime;

  /** Of the runtime. */
  public final String version;

  public final String model;

  /** In bytes, like the next two. */
  public final long arena;

  /** No plan of these records is smaller. */
  public final long lowerBound;

  /** The sum of all sizes. */
  public final long naive;

  public final long alignment;

  /** Operators, or events of the recorded run. */
  public final long steps;

  public final boolean isOptimal;

  private final List<Record> records;

  PlanSet(long[] numbers, String[] texts, List<Record> records) {
    if (numbers.length != 9 || texts.length != 6 || numbers[0] < 0 || numbers[0] >= Kind.values().length) {
      throw new IllegalStateException("libedgemem.so describes a plan in another way than this code reads it");
    }
    kind = Kind.values()[(int) numbers[0]];
    isUsable = numbers[1] != 0;
    arena = numbers[2];
    lowerBound = numbers[3];
    naive = numbers[4];
    alignment = numbers[5];
    steps = numbers[7];
    isOptimal = numbers[8] != 0;
    target = texts[0];
    digest = texts[1];
    strategy = texts[2];
    runtime = texts[3];
    version = texts[4];
    model = texts[5];
    this.records = records;
  }

  /** In the order of their first steps; unmodifiable. */
  public List<Record> records() {
    return records;
  }
}
