package ai.onnxruntime;

/** A stand-in. */
public class NodeInfo {
  private final ValueInfo info;

  public NodeInfo(String name, ValueInfo info) {
    this.info = info;
  }

  public ValueInfo getInfo() {
    return info;
  }
}
