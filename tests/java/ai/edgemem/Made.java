package ai.edgemem;

import java.util.Collections;

/** Runs and plans with these numbers, for tests of what is said about them. */
public final class Made {
  private Made() {}

  /** The 12 numbers of {@link Native#sessionEnd}. */
  public static Run run(long... numbers) {
    return new Run(numbers);
  }

  public static PlanSet plan(PlanSet.Kind kind, boolean isUsable, long arena) {
    long[] numbers = {kind.ordinal(), isUsable ? 1 : 0, arena, arena, 2 * arena, 64, 0, 9, 1};
    String runtime = kind == PlanSet.Kind.RECORDING ? "onnxruntime" : "";
    String[] texts = {"onnx", "", "greedy_by_size", runtime, runtime.isEmpty() ? "" : "1.31.1", ""};
    return new PlanSet(numbers, texts, Collections.<Record>emptyList());
  }
}
