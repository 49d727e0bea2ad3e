package ai.edgemem;

import java.util.Arrays;

/** An input or an output of a model. */
public final class Port {
  public final String name;

  /** ONNX Runtime's name of the element type, such as FLOAT or UINT8. */
  public final String type;

  private final long[] shape;

  public Port(String name, String type, long[] shape) {
    this.name = name;
    this.type = type;
    this.shape = shape.clone();
  }

  /** Of an input as it is fed; of an output as it was last computed, -1 for what is not known before the first run. */
  public long[] shape() {
    return shape.clone();
  }

  /**
   * The number of elements.
   *
   * @throws IllegalArgumentException a dimension is negative, or there are more than an array can have
   */
  public int elements() {
    long product = 1;
    for (long d : shape) {
      if (d < 0 || (d > 0 && product > Integer.MAX_VALUE / d)) {
        throw new IllegalArgumentException(this + " is too large, or its size is not known");
      }
      product *= d;
    }
    return (int) product;
  }

  @Override
  public String toString() {
    return name + " " + type + Arrays.toString(shape);
  }
}
