package ai.onnxruntime;

/** A stand-in. */
public enum OrtProvider {
  CPU,
  NNAPI,
  XNNPACK
}
