package ai.onnxruntime;

/** A stand-in. */
public interface OnnxValue extends AutoCloseable {
  ValueInfo getInfo();

  void close();
}
