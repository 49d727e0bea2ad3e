package ai.onnxruntime;

/** A stand-in. */
public abstract class OnnxTensorLike implements OnnxValue {
  protected final TensorInfo info;

  OnnxTensorLike(TensorInfo info) {
    this.info = info;
  }

  public TensorInfo getInfo() {
    return info;
  }
}
