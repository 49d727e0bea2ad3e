package ai.edgemem.demo;

import ai.edgemem.Level;
import ai.edgemem.PlannedModel;
import ai.edgemem.Port;
import ai.edgemem.Run;
import ai.onnxruntime.OrtException;
import java.nio.FloatBuffer;
import java.util.Collections;
import java.util.Locale;
import java.util.Map;

/** Runs a model in its plan and without one, and says in lines of text what came of both. */
final class Report {
  private static final int RUNS = 21;
  private static final int SHOWN = 4;
  private static final Map<String, FloatBuffer> NO_OTHERS = Collections.emptyMap();

  private Report() {}

  /**
   * @param model the bytes of the planned .onnx file
   * @param shapes of its inputs, by name
   */
  static String of(String name, byte[] model, Level level, Map<String, long[]> shapes) throws OrtException {
    StringBuilder text = new StringBuilder();
    String digest;
    try (PlannedModel planned = open(model, level, shapes, true)) {
      Map<String, float[]> outputs = run(planned);
      Run run = planned.lastRun();
      line(text, "%s in ONNX Runtime %s on %s", name, planned.version(), planned.provider());
      line(text, "plan: %s", run.source.words);
      line(text, "planned %,d bytes, measured %,d bytes", run.planned, run.measured);
      line(text, "lower bound %,d bytes, without sharing %,d bytes", run.lowerBound, run.naive);
      line(text, "%,d of %,d requests from the arena, %,d bytes from the heap", run.hits, run.requests, run.heapPeak);
      line(text, "in the plan: %s", latency(planned));
      for (String note : planned.notes()) {
        line(text, "note: %s", note);
      }
      for (Port output : planned.outputs()) {
        line(text, "%s: %s", output, first(outputs.get(output.name)));
      }
      digest = planned.outputDigest();
    }
    try (PlannedModel plain = open(model, level, shapes, false)) {
      run(plain);
      line(text, "without it: %s", latency(plain));
      line(text, "outputs: sha256 %s", digest);
      line(text, digest.equals(plain.outputDigest()) ? "the same without the plan" : "OTHERS WITHOUT THE PLAN");
    }
    return text.toString();
  }

  private static PlannedModel open(byte[] model, Level level, Map<String, long[]> shapes, boolean inPlan)
      throws OrtException {
    PlannedModel.Options options = new PlannedModel.Options();
    options.planned = inPlan;
    options.level = level;
    options.shapes.putAll(shapes);
    return new PlannedModel(model, options);
  }

  /** Runs the model with made-up values; put your own into the map instead. */
  private static Map<String, float[]> run(PlannedModel model) throws OrtException {
    model.fillInputs();
    Map<String, float[]> outputs = model.run(NO_OTHERS);
    for (int i = 1; i < RUNS; i++) {
      outputs = model.run(NO_OTHERS);
    }
    return outputs;
  }

  private static String latency(PlannedModel model) {
    double first = model.latency().firstMs();
    return String.format(Locale.ROOT, "first run %.2f ms, median %.2f ms", first, model.latency().medianMs());
  }

  private static String first(float[] values) {
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < Math.min(SHOWN, values.length); i++) {
      text.append(i == 0 ? "" : ", ").append(values[i]);
    }
    return text.append(values.length > SHOWN ? ", ..." : "").toString();
  }

  private static void line(StringBuilder text, String format, Object... values) {
    text.append(String.format(Locale.ROOT, format, values)).append('\n');
  }
}
