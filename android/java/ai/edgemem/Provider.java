package ai.edgemem;

/** Who runs a model's operators. */
public enum Provider {
  CPU,
  XNNPACK,
  NNAPI
}
