package ai.onnxruntime;

/** A stand-in. */
public enum OnnxJavaType {
  FLOAT(4),
  DOUBLE(8),
  INT8(1),
  INT16(2),
  INT32(4),
  INT64(8),
  BOOL(1),
  STRING(4),
  UINT8(1),
  FLOAT16(2),
  BFLOAT16(2),
  UNKNOWN(0);

  public final int size;

  OnnxJavaType(int size) {
    this.size = size;
  }
}
