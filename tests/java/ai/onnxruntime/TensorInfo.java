package ai.onnxruntime;

/** A stand-in. */
public class TensorInfo implements ValueInfo {
  public final OnnxJavaType type;
  private final long[] shape;
  private final String[] names;

  TensorInfo(long[] shape, String[] names, OnnxJavaType type) {
    this.shape = shape;
    this.names = names;
    this.type = type;
  }

  public long[] getShape() {
    return shape.clone();
  }

  public String[] getDimensionNames() {
    return names.clone();
  }

  public long getNumElements() {
    long product = 1;
    for (long d : shape) {
      product *= d;
    }
    return product;
  }
}
