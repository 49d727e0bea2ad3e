package ai.onnxruntime;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A stand-in. Its model is a text; each line is one of
 *
 * <pre>
 *   in NAME TYPE D0,D1,...     a dimension is a size, or a name
 *   out NAME TYPE              of the first input's shape: its elements, doubled, plus 1
 *   partial PROVIDER           leaves operators to the CPU
 *   broken PROVIDER            makes no session
 *   fails                      a run ends with an error
 * </pre>
 */
public class OrtSession implements AutoCloseable {
  private final Map<String, NodeInfo> inputs = new LinkedHashMap<>();
  private final Map<String, NodeInfo> outputs = new LinkedHashMap<>();
  private boolean isFailing;
  private boolean isClosed;

  OrtSession(byte[] model, SessionOptions options) throws OrtException {
    for (String line : new String(model, StandardCharsets.UTF_8).split("\n")) {
      String[] words = line.trim().split(" ");
      switch (words[0]) {
        case "in":
          inputs.put(words[1], node(words));
          break;
        case "out":
          outputs.put(words[1], node(words));
          break;
        case "partial":
          if (options.providers.contains(words[1]) && options.config.containsKey("session.disable_cpu_ep_fallback")) {
            throw new OrtException("operators are left to the CPU");
          }
          break;
        case "broken":
          if (options.providers.contains(words[1])) {
            throw new OrtException("the driver is missing\nand more lines");
          }
          break;
        case "fails":
          isFailing = true;
          break;
        default:
          throw new OrtException("this is no model");
      }
    }
    Alive.SESSIONS.incrementAndGet();
  }

  private static NodeInfo node(String[] words) {
    String[] sizes = words.length < 4 ? new String[0] : words[3].split(",");
    long[] shape = new long[sizes.length];
    String[] names = new String[sizes.length];
    for (int i = 0; i < sizes.length; i++) {
      boolean isNumber = sizes[i].matches("[0-9]+");
      shape[i] = isNumber ? Long.parseLong(sizes[i]) : -1;
      names[i] = isNumber ? "" : sizes[i];
    }
    return new NodeInfo(words[1], new TensorInfo(shape, names, OnnxJavaType.valueOf(words[2])));
  }

  public Map<String, NodeInfo> getInputInfo() throws OrtException {
    return inputs;
  }

  public Map<String, NodeInfo> getOutputInfo() throws OrtException {
    return outputs;
  }

  public Result run(Map<String, ? extends OnnxTensorLike> given) throws OrtException {
    if (isClosed) {
      throw new IllegalStateException("Trying to run inference on a closed OrtSession.");
    }
    if (isFailing || !given.keySet().equals(inputs.keySet())) {
      throw new OrtException("the run failed");
    }
    OnnxTensor first = (OnnxTensor) given.values().iterator().next();
    Map<String, OnnxValue> results = new LinkedHashMap<>();
    for (Map.Entry<String, NodeInfo> output : outputs.entrySet()) {
      TensorInfo info = new TensorInfo(first.info.getShape(), null, ((TensorInfo) output.getValue().getInfo()).type);
      results.put(output.getKey(), new OnnxTensor(doubled(first, info), info));
    }
    return new Result(results);
  }

  private static ByteBuffer doubled(OnnxTensor from, TensorInfo info) {
    int count = (int) info.getNumElements();
    ByteBuffer to = ByteBuffer.allocateDirect(count * info.type.size).order(ByteOrder.nativeOrder());
    for (int i = 0; i < count; i++) {
      float value = from.info.type == OnnxJavaType.FLOAT ? from.data.getFloat(4 * i) : from.data.get(i) & 0xFF;
      if (info.type == OnnxJavaType.FLOAT) {
        to.putFloat(4 * i, 2 * value + 1);
      } else if (info.type == OnnxJavaType.INT64) {
        to.putLong(8 * i, (long) (2 * value + 1));
      }
    }
    return to;
  }

  @Override
  public void close() throws OrtException {
    if (!isClosed) {
      isClosed = true;
      Alive.SESSIONS.decrementAndGet();
    }
  }

  /** A stand-in. */
  public static class SessionOptions implements AutoCloseable {
    final List<String> providers = new ArrayList<>();
    final Map<String, String> config = new LinkedHashMap<>();

    public SessionOptions() {
      Alive.OPTIONS.incrementAndGet();
    }

    public void setIntraOpNumThreads(int numThreads) throws OrtException {}

    /** As ONNX Runtime names them. */
    public enum OptLevel {
      NO_OPT,
      BASIC_OPT,
      EXTENDED_OPT,
      ALL_OPT
    }

    public void setOptimizationLevel(OptLevel level) throws OrtException {
      config.put("level", level.name());
    }

    public void setMemoryPatternOptimization(boolean memPattern) throws OrtException {
      config.put("pattern", String.valueOf(memPattern));
    }

    public void registerCustomOpLibrary(String path) throws OrtException {}

    public void addConfigEntry(String configKey, String configValue) throws OrtException {
      config.put(configKey, configValue);
    }

    public void addXnnpack(Map<String, String> providerOptions) throws OrtException {
      providers.add("XNNPACK");
    }

    public void addNnapi() throws OrtException {
      providers.add("NNAPI");
    }

    @Override
    public void close() {
      Alive.OPTIONS.decrementAndGet();
    }
  }

  /** A stand-in. */
  public static class Result implements AutoCloseable, Iterable<Map.Entry<String, OnnxValue>> {
    private final Map<String, OnnxValue> values;

    Result(Map<String, OnnxValue> values) {
      this.values = values;
    }

    @Override
    public Iterator<Map.Entry<String, OnnxValue>> iterator() {
      return values.entrySet().iterator();
    }

    @Override
    public void close() {
      for (OnnxValue value : values.values()) {
        value.close();
      }
    }
  }
}
